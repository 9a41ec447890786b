"""Classify a photograph.

python examples/classify.py mobilenet.tflite cat.jpg
python examples/classify.py mobilenet.onnx cat.jpg labels.txt
"""

import sys

import fourfold
from fourfold import vision

model, photograph, *files = sys.argv[1:]
labels = vision.read_labels(files[0]) if files else ()
with fourfold.Session(model) as session:
    answer = vision.ask(session, photograph, labels=labels)
for one in answer.classes:
    print(f"{one.score:.3f}  {one.name}")
print(*answer.notes, sep="\n")
