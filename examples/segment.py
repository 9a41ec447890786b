"""Segment a photograph into classes, and color them.

python examples/segment.py deeplab_v3.tflite street.jpg parts.png
"""

import sys

import fourfold
from fourfold import vision

model, photograph, drawing = sys.argv[1:]
with fourfold.Session(model) as session:
    answer = vision.ask(session, photograph)
for part in answer.masks[0].shares:
    print(f"{part.share:6.1%}  {part.name}")
answer.draw(photograph).save(drawing)
