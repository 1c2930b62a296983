"""OH_NN_Tensor, which describes a tensor; NN_Tensor and OH_NN_Memory, which hold one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from nnconv.errors import plural
from nnconv.formats.nnrt.types import DataType, ReturnCode, TensorType
from nnconv.runtime.core.memory import (
    READ,
    WRITE,
    FileDescriptorError,
    FileRegion,
    MapError,
    Region,
    shared,
)
from nnconv.runtime.nnrt import device
from nnconv.runtime.nnrt.desc import MOST_SIZE, TensorDesc
from nnconv.runtime.nnrt.errors import (
    Error,
    Handle,
    call,
    existing,
    failed,
    integer,
    invalid,
    listed,
    pointer,
)
from nnconv.runtime.nnrt.quant import QuantParam

if TYPE_CHECKING:
    import numpy as np

MOST_BYTES = 1 << 30
"""How large a buffer of a device may be."""

MOST_FD = (1 << 31) - 1


class Tensor:
    """OH_NN_Tensor: what ``Model.add_tensor`` and ``Executor.set_input`` need to know of a tensor.

    The ``create`` methods are those of NN_Tensor: they give a tensor in a device's memory.

    Attributes:
        data_type: a ``DataType``.
        dimensions: the extents, -1 for one that isn't known; empty for a scalar.
        quant_param: how its integers stand for real numbers, if they do.
        type: a ``TensorType``: what it is to an operation.
    """

    __slots__ = ("data_type", "dimensions", "quant_param", "type")

    def __init__(
        self,
        data_type: int,
        dimensions: Iterable[int] | None = None,
        quant_param: QuantParam | None = None,
        type: int = TensorType.TENSOR,
    ) -> None:
        """Take them as they are: they are looked at when a model or an executor gets them.

        Raises:
            Error: INVALID_PARAMETER, the dimensions are no list.
        """
        self.data_type = data_type
        self.dimensions = () if dimensions is None else listed(dimensions, "dimensions")
        self.quant_param = quant_param
        self.type = type

    @classmethod
    @pointer
    def create(cls, device_id: int, tensor_desc: TensorDesc) -> DeviceTensor:
        """Make a tensor in memory of the size that its description takes.

        Raises:
            Error: NULL_PTR.
        """
        existing(tensor_desc, TensorDesc, "tensor_desc")
        _demand_device(device_id)
        size = tensor_desc.get_byte_size()
        if not size:
            raise invalid(f"the shape {list(tensor_desc.shape)} isn't known")
        return _made(device_id, tensor_desc, size)

    @classmethod
    @pointer
    def create_with_size(cls, device_id: int, tensor_desc: TensorDesc, size: int) -> DeviceTensor:
        """Make a tensor in memory of ``size`` bytes, at least what its description takes.

        Raises:
            Error: NULL_PTR.
        """
        existing(tensor_desc, TensorDesc, "tensor_desc")
        _demand_device(device_id)
        count = integer(size, "size", low=0, high=MOST_SIZE)
        least = tensor_desc.get_byte_size()
        if count < least:
            raise invalid(f"size is {count}, the description takes {least}")
        if not count:
            raise invalid("size is 0")
        return _made(device_id, tensor_desc, count)

    @classmethod
    @pointer
    def create_with_fd(
        cls, device_id: int, tensor_desc: TensorDesc, fd: int, size: int, offset: int
    ) -> DeviceTensor:
        """Make a tensor in an open file.

        Args:
            device_id: the device.
            tensor_desc: what the tensor is.
            fd: the file's descriptor.
            size: how many of the file's bytes to map, from its start.
            offset: of the first that belongs to the tensor.

        Raises:
            Error: NULL_PTR.
        """
        existing(tensor_desc, TensorDesc, "tensor_desc")
        descriptor = integer(fd, "fd", low=0, high=MOST_FD)
        count = integer(size, "size", low=1, high=MOST_SIZE)
        start = integer(offset, "offset", low=0, high=count)
        least = tensor_desc.get_byte_size()
        if count - start < least:
            raise invalid(f"{plural(count - start, 'byte')} left, the description takes {least}")
        _demand_device(device_id)
        try:
            region = FileRegion(count, READ | WRITE, descriptor, 0)
            region.view(writable=True)
        except (FileDescriptorError, MapError) as error:
            raise failed(str(error)) from error
        return DeviceTensor(device_id, tensor_desc, region, descriptor, start)

    def __repr__(self) -> str:
        name = self.data_type.name if isinstance(self.data_type, DataType) else self.data_type
        return f"Tensor({name}, {self.dimensions}, {self.quant_param}, {self.type!r})"


class DeviceTensor(Handle):
    """NN_Tensor: a tensor in memory that it shares with a device.

    Attributes:
        device_id: of the device.
        desc: what the tensor is; after a run, what came out.
    """

    def __init__(
        self, device_id: int, desc: TensorDesc, region: FileRegion, fd: int, offset: int
    ) -> None:
        """Take a part of a file; programs call one of the ``create`` methods of ``Tensor``."""
        self.device_id = device_id
        self.desc = desc.copy()
        self._region = region
        self._fd = fd
        self._offset = offset

    @call
    def destroy(self) -> None:
        """End it; arrays of its memory live on as long as they are used.

        Raises:
            Error: INVALID_PARAMETER; NULL_PTR, its device is gone.
        """
        if device.find(self.device_id) is None:
            raise Error(ReturnCode.NULL_PTR, f"there is no device {self.device_id}")
        self.destroyed = True

    @pointer
    def get_tensor_desc(self) -> TensorDesc:
        """What the tensor is: no copy, changes count.

        Raises:
            Error: NULL_PTR.
        """
        return self.desc

    @pointer
    def get_data_buffer(self) -> np.ndarray:
        """The tensor's memory as bytes that can be written; with a descriptor, from offset on.

        Raises:
            Error: NULL_PTR.
        """
        return self._region.view(writable=True)[self._offset :]

    @call
    def get_fd(self) -> int:
        """The descriptor of the file that the memory is a part of.

        Raises:
            Error: INVALID_PARAMETER.
        """
        return self._fd

    @call
    def get_size(self) -> int:
        """How many bytes are mapped.

        Raises:
            Error: INVALID_PARAMETER.
        """
        return self._region.size

    @call
    def get_offset(self) -> int:
        """Where in the mapped bytes the tensor begins.

        Raises:
            Error: INVALID_PARAMETER.
        """
        return self._offset

    def __repr__(self) -> str:
        return f"<DeviceTensor {self.desc!r} of {self._region.size} bytes>"


class Memory(Handle):
    """OH_NN_Memory: bytes that an executor shares with the program.

    Attributes:
        data: the bytes, as an array that can be written.
        length: how many.
    """

    def __init__(self, length: int) -> None:
        """Make ``length`` bytes; programs call methods of ``Executor`` instead."""
        self.data = Region(length).view(writable=True)
        self.length = length


def _demand_device(device_id: Any) -> None:
    if device.find(device_id) is None:
        raise invalid(f"there is no device {device_id}")


def _made(device_id: int, desc: TensorDesc, size: int) -> DeviceTensor:
    if size > MOST_BYTES:
        raise invalid(f"{plural(size, 'byte')}, at most {MOST_BYTES} are possible")
    try:
        region = shared(size)
    except MapError as error:
        raise Error(ReturnCode.MEMORY_ERROR, str(error)) from error
    return DeviceTensor(device_id, desc, region, region.descriptor, 0)
