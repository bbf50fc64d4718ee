"""Missing, wrong and truncated files, and how they are fetched."""

from __future__ import annotations

import functools
import gzip
import http.server
import pickle
import re
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from torchvision import datasets

from initmem.data import files as manifest
from initmem.data.load import check, fetch, load
from initmem.study.data_section import Digits, Modular, Text
from initmem.study.recipe import variants
from initmem.study.spec import UserError
from tests.data import files
from tests.data.test_images import section

FIRST = {
    "fashion_mnist": "FashionMNIST/raw/train-images-idx3-ubyte",
    "cifar10": "cifar-10-batches-py/data_batch_3",
    "cifar100": "cifar-100-python/meta",
    "svhn": "test_32x32.mat",
}
COUNT = {"fashion_mnist": 4, "cifar10": 7, "cifar100": 3, "svhn": 2}


@pytest.mark.parametrize("name", files.NAMES)
def test_all_files_are_checked(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        check(section(name), tmp_path)
    *faults, command = str(caught.value).splitlines()
    assert len(faults) == COUNT[name]
    assert all(re.search(r": missing, expected md5 [0-9a-f]{32}$", fault) for fault in faults)
    assert command.endswith(f": initmem fetch {name} --data {tmp_path}")


@pytest.mark.parametrize("name", files.NAMES)
@pytest.mark.parametrize("damage", ["missing", "truncated", "one bit"])
def test_a_damaged_file_is_named(
    name: str, damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write(name, tmp_path, monkeypatch)
    check(section(name), tmp_path)
    path = tmp_path / FIRST[name]
    content = path.read_bytes()
    expected = files.md5(path)
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(content[:-1])
    else:
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    found = "missing" if damage == "missing" else f"md5 {files.md5(path)}"
    for use in (check, load):
        with pytest.raises(UserError) as caught:
            use(section(name, train=40, validation=20), tmp_path)
        fault, command = str(caught.value).splitlines()
        assert fault == f"{path}: {found}, expected md5 {expected}"
        assert f"initmem fetch {name} --data {tmp_path}" in command


def test_a_strange_pickle_is_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write("cifar10", tmp_path, monkeypatch)

    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(UserError, match="test_batch"):
        load(section("cifar10", train=40, validation=20), tmp_path)
    assert not (tmp_path / "sprung").exists()


def test_the_folder_is_quoted_for_the_shell(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--data '.*/my data'$"):
        check(section("svhn"), tmp_path / "my data")


def test_a_folder_in_the_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "train_32x32.mat").mkdir()
    with pytest.raises(UserError, match=r"train_32x32\.mat: cannot be read: Is a directory"):
        check(section("svhn"), tmp_path)


def test_some_data_sets_need_no_file(tmp_path: Path) -> None:
    check(Digits(name="digits"), tmp_path)
    check(Modular(name="modular"), tmp_path)
    check(Text(name="text"), tmp_path)
    assert fetch("digits", tmp_path) == "digits: nothing to fetch, it comes with scikit-learn"
    for name in ("modular", "addition", "anchors", "permutations"):
        assert fetch(name, tmp_path) == f"{name}: nothing to fetch, it is computed"
    said = "text: nothing to fetch, a text comes with initmem, any other is a file of yours"
    assert fetch("text", tmp_path) == f"{said} (data.file)"


def test_an_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown data set 'cifar-10'") as caught:
        fetch("cifar-10", tmp_path)
    assert all(name in str(caught.value) for name in variants("data"))
    assert str(caught.value).endswith("did you mean 'cifar10'?")


@pytest.mark.parametrize("name", files.NAMES)
def test_whole_files_are_not_fetched_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write(name, tmp_path, monkeypatch)
    monkeypatch.setattr("socket.socket.connect", None)
    assert fetch(name, tmp_path).startswith(f"{name}: already in {tmp_path}")


@pytest.mark.parametrize("name", files.NAMES)
def test_without_a_network_the_way_out_is_said(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*args: object, **kwargs: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr("socket.getaddrinfo", unreachable)
    with pytest.raises(UserError) as caught:
        fetch(name, tmp_path)
    text = str(caught.value)
    assert "\n" not in text and "no route to host" in text
    assert re.search(r"cannot download from [a-z0-9.-]+\.(edu|com):", text), text
    assert f"place the files in {tmp_path} by hand" in text and FIRST[name] in text


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder and the address that serves it."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    folder = tmp_path / "served"
    folder.mkdir()
    monkeypatch.setenv("no_proxy", "*")
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, args=(0.05,)).start()
        yield folder, f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def test_a_damaged_archive_member_is_fetched_again(
    server: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = server
    target = tmp_path / "data"
    files.write("cifar10", target, monkeypatch)
    with tarfile.open(folder / "c.tar.gz", "w:gz") as archive:
        archive.add(target / "cifar-10-batches-py", "cifar-10-batches-py")
    monkeypatch.setattr(datasets.CIFAR10, "url", f"{address}/c.tar.gz")
    monkeypatch.setattr(datasets.CIFAR10, "tgz_md5", files.md5(folder / "c.tar.gz"))
    (target / FIRST["cifar10"]).write_bytes(b"damaged")
    host = address.removeprefix("http://")
    assert fetch("cifar10", target) == f"cifar10: downloaded from {host} into {target}"
    check(section("cifar10"), target)


def test_a_damaged_file_of_fashion_mnist_is_fetched_again(
    server: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = server
    files.write("fashion_mnist", tmp_path, monkeypatch)
    resources = []
    for file in manifest.FASHION_MNIST:
        packed = folder / f"{file}.gz"
        packed.write_bytes(gzip.compress((tmp_path / "FashionMNIST/raw" / file).read_bytes()))
        resources.append((packed.name, files.md5(packed)))
    monkeypatch.setattr(datasets.FashionMNIST, "mirrors", [f"{address}/"])
    monkeypatch.setattr(datasets.FashionMNIST, "resources", resources)
    (tmp_path / FIRST["fashion_mnist"]).write_bytes(b"damaged")
    assert "downloaded" in fetch("fashion_mnist", tmp_path)
    check(section("fashion_mnist"), tmp_path)


def test_both_files_of_svhn_are_fetched(
    server: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = server
    files.write("svhn", folder, monkeypatch)
    listed = {
        part: [f"{address}/{file}", file, md5]
        for part, (_, file, md5) in datasets.SVHN.split_list.items()
    }
    monkeypatch.setattr(datasets.SVHN, "split_list", listed)
    assert "downloaded" in fetch("svhn", tmp_path / "data")
    data = load(section("svhn", train=40, validation=20), tmp_path / "data")
    assert len(data.test.targets) == 30


def test_a_wrong_download_is_refused(
    server: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = server
    (folder / "c.tar.gz").write_bytes(b"a login page")
    monkeypatch.setattr(datasets.CIFAR10, "url", f"{address}/c.tar.gz")
    with pytest.raises(UserError, match=r"cannot download from 127\.0\.0\.1:.* corrupted"):
        fetch("cifar10", tmp_path / "data")
