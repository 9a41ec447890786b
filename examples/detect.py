"""Detect objects in a photograph, and draw their boxes.

python examples/detect.py ssd_mobilenet.tflite street.jpg boxes.png
"""

import sys

import fourfold
from fourfold import vision

model, photograph, drawing = sys.argv[1:]
with fourfold.Session(model) as session:
    answer = vision.ask(session, photograph)
for box in answer.boxes:
    top, left, bottom, right = box.corners  # from 0 to 1
    print(f"{box.score:.3f}  {box.name}: {left:.1%} to {right:.1%}, {top:.1%} to {bottom:.1%}")
answer.draw(photograph).save(drawing)
