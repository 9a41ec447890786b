"""Enlarge a photograph with a model for RGB, or for brightness only.

python examples/super_resolution.py edsr_x2.tflite small.jpg large.png
"""

import sys

from PIL import Image, ImageOps

import fourfold
from fourfold import vision

model, photograph, enlarged = sys.argv[1:]
with fourfold.Session(model) as session:
    shape = session.inputs[0].shape
    height, width = shape[1:3] if shape[3] == 3 else shape[2:]  # NHWC or NCHW
    small = ImageOps.fit(Image.open(photograph).convert("RGB"), (width, height))
    answer = vision.ask(session, small)
large = answer.draw(small)
if large.mode == "L":  # the model enlarges brightness only; color can be resized
    blue, red = (part.resize(large.size) for part in small.convert("YCbCr").split()[1:])
    large = Image.merge("YCbCr", (large, blue, red)).convert("RGB")
large.save(enlarged)
print(f"{width} × {height} -> {large.width} × {large.height}")
