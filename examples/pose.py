"""Find the key points of a body, and draw its skeleton.

python examples/pose.py movenet_lightning.tflite dancer.jpg pose.png
"""

import sys

import fourfold
from fourfold import vision

model, photograph, drawing = sys.argv[1:]
with fourfold.Session(model) as session:
    answer = vision.ask(session, photograph)
for body in answer.key_points:
    for point, seen in zip(body.points, body.seen, strict=True):
        print(f"{point.name}: {point.x:.3f}, {point.y:.3f}" if seen else f"{point.name}: not seen")
answer.draw(photograph).save(drawing)
