"""Say what is on a photograph.

python examples/classify.py mobilenet.tflite cat.jpg
python examples/classify.py mobilenet.onnx cat.jpg labels.txt
"""

import sys

import fourfold
from fourfold import results

model, photograph, *files = sys.argv[1:]
labels = results.read_labels(files[0]) if files else ()
with fourfold.Session(model) as session:
    answer = results.ask(session, photograph, labels=labels)
for found in answer.classes:
    print(f"{found.score:.3f}  {found.name}")
print(*answer.notes, sep="\n")
