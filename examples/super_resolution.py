"""Enlarge a photograph: models that take colors, or brightness alone.

python examples/super_resolution.py edsr_x2.tflite small.jpg large.png
"""

import sys

from PIL import Image, ImageOps

import fourfold
from fourfold import results

model, photograph, enlarged = sys.argv[1:]
with fourfold.Session(model) as session:
    takes = session.inputs[0].shape
    height, width = takes[1:3] if takes[3] == 3 else takes[2:]  # channels last, or first
    small = ImageOps.fit(Image.open(photograph).convert("RGB"), (width, height))
    answer = results.ask(session, small)
large = answer.draw(small)
if large.mode == "L":  # colors are blurred without anybody seeing it
    blue, red = (part.resize(large.size) for part in small.convert("YCbCr").split()[1:])
    large = Image.merge("YCbCr", (large, blue, red)).convert("RGB")
large.save(enlarged)
print(f"{width} × {height} became {large.width} × {large.height}")
