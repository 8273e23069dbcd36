"""A version rebuilt from spec and safetensors is the version, bit for bit."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest
import torch
from strangers import Branches
from torch import nn

from relaytrain.compression.prune import prune, reestimate_batchnorm
from relaytrain.core.errors import ScenarioError
from relaytrain.models import FactorySpec, FamilySpec, build, family_spec, load_version, save_version, spec_of
from relaytrain.models.rebuild import from_scenario, of_module, only, shapes_of
from relaytrain.models.spec import spec_json
from relaytrain.models.travel import read_version_spec

pytestmark = pytest.mark.train

# family, width, input: every family, and every input size where pools and strides behave differently
CASES = [
    pytest.param("vgg11", 0.125, (3, 32, 32), marks=pytest.mark.slow),
    ("vgg11", 0.125, (1, 8, 8)),
    pytest.param("vgg16", 0.125, (1, 28, 28), marks=pytest.mark.slow),
    ("alexnet", 0.125, (3, 16, 16)),
    pytest.param("mobilenet", 0.25, (3, 32, 32), marks=pytest.mark.slow),
    pytest.param("mobilenet", 0.25, (1, 8, 8), marks=pytest.mark.slow),
    ("resnet8", 1.0, (3, 32, 32)),
    pytest.param("resnet14", 0.5, (1, 28, 28), marks=pytest.mark.slow),
    pytest.param("resnet20", 0.5, (1, 8, 8), marks=pytest.mark.slow),
    ("cnn", 1.0, (1, 8, 8)),
    ("cnn", 1.0, (1, 28, 28)),
]
TOLERANCE = {"mobilenet": 0.05}  # depthwise weights shrink with one side only, so the grid of ratios is coarser


def trained(spec: FamilySpec, seed: int = 1) -> nn.Module:
    """Two steps on random images, so that batch-norm statistics and biases are no longer what they start as."""
    torch.manual_seed(seed)
    model = build(spec, seed=seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(2):
        images, labels = torch.randn(8, *spec.input), torch.randint(spec.classes, (8,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("family, width, shape", CASES)
def test_every_family_at_every_ratio(family: str, width: float, shape: tuple[int, int, int]) -> None:
    base = family_spec(family, input=shape, classes=10, width=width)
    model = trained(base)
    images = torch.randn(4, *shape)
    untouched = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for ratio in (0.0, 0.5, 0.75, 0.9):
        pruned = prune(model, images, ratio)
        assert abs(pruned.reached - ratio) <= TOLERANCE.get(family, 0.03), (ratio, pruned.reached)
        reestimate_batchnorm(pruned.model, [images])
        spec = spec_of(pruned.model, base)
        data = save_version(pruned.model, spec)
        again, rebuilt = load_version(data)
        assert again == spec == read_version_spec(data)
        assert save_version(rebuilt, again) == data
        state = pruned.model.state_dict()
        assert all(torch.equal(state[name], tensor) for name, tensor in rebuilt.state_dict().items())
        for training in (False, True):
            assert torch.equal(rebuilt.train(training)(images), pruned.model.train(training)(images))
    assert all(torch.equal(untouched[name], tensor) for name, tensor in model.state_dict().items())


def test_he_draws_keep_the_signal_that_plain_ones_lose() -> None:
    """One shape, two draws: He's keep the size of what passes through, PyTorch's lose more than a thousandth of it."""
    plain, he = (family_spec(name, input=(3, 16, 16), classes=10, width=0.25) for name in ("alexnet", "alexnet-he"))
    assert plain.widths == he.widths and shapes_of(build(plain)) == shapes_of(build(he))
    images = torch.randn(16, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        spread = {spec.family: float(build(spec, seed=3)(images).std(dim=0).mean()) for spec in (plain, he)}
    assert 0.2 < spread["alexnet-he"] < 5.0 and spread["alexnet"] < 0.02 * spread["alexnet-he"], spread
    assert spec_of(build(he), he) == he


@pytest.mark.parametrize("family, width, shape", CASES)
def test_a_rebuilt_version_trains_like_the_original(family: str, width: float, shape: tuple[int, int, int]) -> None:
    base = family_spec(family, input=shape, classes=4, width=width)
    model = prune(trained(base), torch.zeros(2, *shape), 0.5).model
    _, rebuilt = load_version(save_version(model, spec_of(model, base)))
    images, labels = torch.randn(8, *shape), torch.arange(8) % 4
    for twin in (model, rebuilt):
        twin.train()
        optimizer = torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9)
        for _ in range(2):
            optimizer.zero_grad()
            nn.functional.cross_entropy(twin(images), labels).backward()
            optimizer.step()
    ours = dict(rebuilt.named_parameters())
    assert all(torch.equal(ours[name], parameter) for name, parameter in model.named_parameters())


def test_layers_keep_the_names_that_their_author_gave_them() -> None:
    """Python takes attributes in any script, and keys of a `ModuleDict` may hold hyphens."""
    model = nn.ModuleDict({"tür": nn.Linear(4, 3), "kopf-4": nn.Linear(3, 2)})
    spec = FactorySpec("a:b", tuple(sorted(shapes_of(model).items())))
    body = save_version(model, spec)
    blank = nn.ModuleDict({"tür": nn.Linear(4, 3), "kopf-4": nn.Linear(3, 2)})
    found, rebuilt = load_version(body, resolve=only("a:b", lambda: blank))
    assert found == spec and [name for name, _ in rebuilt.named_children()] == ["tür", "kopf-4"]
    assert all(torch.equal(mine, model.state_dict()[name]) for name, mine in rebuilt.state_dict().items())


def test_a_strangers_module_travels_by_its_factory() -> None:
    torch.manual_seed(0)
    model, images = Branches(), torch.randn(4, 3, 8, 8)
    for ratio in (0.0, 0.5, 0.75):
        pruned = prune(model, images, ratio).model.eval()
        spec = FactorySpec("strangers:make_branches", tuple(sorted(shapes_of(pruned).items())))
        _, rebuilt = load_version(save_version(pruned, spec), resolve=only("strangers:make_branches", Branches))
        assert torch.equal(rebuilt.eval()(images), pruned(images))
        assert rebuilt.depthwise.groups == rebuilt.depthwise.out_channels


def test_a_factory_named_by_a_local_scenario_is_followed() -> None:
    spec = FactorySpec("strangers:make_branches", tuple(sorted(shapes_of(Branches()).items())))
    assert isinstance(build(spec, resolve=from_scenario("strangers:make_branches")), nn.Module)
    with pytest.raises(ScenarioError, match=r"only 'strangers:make_branches' is allowed"):
        build(FactorySpec("other:thing", spec.shapes), resolve=from_scenario("strangers:make_branches"))


def test_a_reference_to_what_is_no_factory_is_refused() -> None:
    with pytest.raises(ScenarioError, match="is a tuple, expected a function that makes a module"):
        from_scenario("strangers:WIDTHS")


def test_a_module_in_memory_is_its_own_factory() -> None:
    model = Branches()
    spec, resolve = of_module(model)
    _, rebuilt = load_version(save_version(model, spec), resolve=resolve)
    images = torch.randn(2, 3, 8, 8)
    assert torch.equal(rebuilt.eval()(images), model.eval()(images))


def test_building_is_seeded_and_leaves_torchs_random_state_alone() -> None:
    spec = family_spec("cnn", input=(1, 8, 8), classes=10)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, second, other = build(spec, seed=1), build(spec, seed=1), build(spec, seed=2)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(first.features[0].weight, second.features[0].weight)
    assert not torch.equal(first.features[0].weight, other.features[0].weight)


def test_digest_names_the_architecture_and_not_the_weights() -> None:
    spec = family_spec("resnet8", input=(3, 32, 32), classes=10)
    assert spec_json(spec) == spec_json(spec_of(build(spec, seed=3), spec))
    assert spec_json(spec) != spec_json(family_spec("resnet8", input=(3, 32, 32), classes=11))
    digest = hashlib.sha256(spec_json(spec).encode()).hexdigest()
    assert digest == "345dbb5bf4ce687a8e9c577d0f6e588693710ea3a40a2a1ba9b5f68457f5e6e6"


def test_spec_of_refuses_a_model_of_another_family() -> None:
    vgg = build(family_spec("vgg11", input=(3, 32, 32), classes=10, width=0.125))
    with pytest.raises(ScenarioError, match="which every cnn has"):
        spec_of(vgg, family_spec("cnn", input=(3, 32, 32), classes=10))
    with pytest.raises(ScenarioError, match="not a vgg11 of widths"):
        spec_of(vgg, family_spec("vgg11", input=(3, 32, 32), classes=11))


def test_specs_are_checked_without_torch() -> None:
    code = "import sys, relaytrain.models as m; m.family_spec('vgg11', input=(3, 32, 32), classes=10); "
    code += "print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"
