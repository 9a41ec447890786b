"""Caffe and Paddle models on every device agree with OpenCV and Paddle Inference."""

from __future__ import annotations

import pytest
from stored_answers import check_answers, stored
from whole_models import CAFFE, PADDLE, WholeModel

from fourfold import Session
from fourfold.device import DeviceInfo
from fourfold.errors import InputError, ModelError

EXPECTED = {**stored("caffe_models"), **stored("paddle_models")}
TOLERANCE = {"fp32": 1e-4, "mixed": 1e-2}  # relative to the range of an output


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("name", [*CAFFE, *PADDLE])
def test_model_agrees_with_its_reference_runtime(
    name: str, precision: str, device: DeviceInfo
) -> None:
    model: WholeModel = {**CAFFE, **PADDLE}[name]
    if not model.file.exists():
        pytest.skip(f"{model.path} is not available")
    shapes = {model.input: model.shape}
    with Session(model.file, device, precision, shapes) as session:  # type: ignore[arg-type]
        assert session.placement.whole
        outputs = session.run(model.arrays)
    check_answers(EXPECTED[name], list(outputs.values()), TOLERANCE[precision])


def test_keeps_names_of_the_files(device: DeviceInfo) -> None:
    for model, output in ((PADDLE["cls"], "softmax_0.tmp_0"), (PADDLE["det"], "sigmoid_0.tmp_0")):
        if not model.file.exists():
            pytest.skip(f"{model.path} is not available")
        with Session(model.file.parent, device, shapes={model.input: model.shape}) as session:
            assert [one.name for one in session.inputs] == ["x"]
            assert [one.name for one in session.outputs] == [output]


def test_rejects_a_network_without_weights() -> None:
    path = CAFFE["rfb"].file.with_name("squeezenet_v1.1.prototxt")
    if not path.exists():
        pytest.skip("the network is not available")
    with pytest.raises(ModelError, match="has no weights"):
        Session(path)


def test_detector_with_open_sizes_needs_a_shape() -> None:
    path = PADDLE["det"].file
    if not path.exists():
        pytest.skip("the detector is not available")
    with pytest.raises(InputError, match="the shape of input 'x' is needed"):
        Session(path)
