"""What postprocessor and transform share: the layer they hold, how they are copied and pickled, what went wrong."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Self

from llama_index.core.schema import BaseComponent
from pydantic import ConfigDict, PrivateAttr, ValidationError, field_serializer, field_validator

from apl.errors import ConfigError
from apl.layer import AutoPrunedLayer

logger = logging.getLogger(__name__)

OpensLayer = Callable[[], AutoPrunedLayer]


@dataclass(slots=True)
class _Held:
    """The layer that a function opened, and the count of errors."""

    layer: AutoPrunedLayer | None = None
    opens: OpensLayer | None = None
    errors: int = 0
    lock: Lock = field(default_factory=Lock)

    def layer_by(self, opens: OpensLayer) -> AutoPrunedLayer:
        """The layer this function opens; it is called once."""
        with self.lock:
            if self.layer is None or self.opens is not opens:
                layer = opens()
                if not isinstance(layer, AutoPrunedLayer):
                    raise ConfigError(
                        f"the function given as layer returned {type(layer).__name__}, no AutoPrunedLayer"
                    )
                self.layer, self.opens = layer, opens
            return self.layer

    def count_error(self) -> None:
        """One more."""
        with self.lock:
            self.errors += 1


class HoldsLayer(BaseComponent):
    """Holds a layer, or the function that opens it.

    A copy, deep or not, holds the same layer. An open layer is a file and does not pickle; a function that stands at
    the top of a module does, or a `functools.partial` of one, and is called again where the component is first used.

    Raises:
        ConfigError: An option is unknown or does not fit, said at construction; or a component is pickled that holds
            what cannot be pickled.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    layer: AutoPrunedLayer | OpensLayer
    _held: _Held = PrivateAttr(default_factory=_Held)

    def __init__(self, **options: Any) -> None:
        try:
            super().__init__(**options)
        except ValidationError as error:
            faults = "; ".join(
                f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors(include_url=False)
            )
            raise ConfigError(f"{type(self).__name__} cannot be made like this: {faults}") from error

    @field_validator("layer")
    @classmethod
    def _layer_is_no_class(cls, layer: Any) -> Any:
        if isinstance(layer, type):
            raise ValueError(f"has to be an open layer or a function that opens one, not the class {layer.__name__}")  # noqa: TRY004 - pydantic's way
        return layer

    @property
    def opened_layer(self) -> AutoPrunedLayer:
        """The open layer. A function that was given for it is called once, at construction or after unpickling."""
        return self.layer if isinstance(self.layer, AutoPrunedLayer) else self._held.layer_by(self.layer)

    @property
    def errors(self) -> int:
        """How often apl failed and the host's nodes went out as they were."""
        return self._held.errors

    @property
    def _raises(self) -> bool:
        """True where the layer's `on_error` wants errors raised; a layer that cannot be opened wants nothing."""
        opened = self.layer if isinstance(self.layer, AutoPrunedLayer) else self._held.layer
        return opened is not None and opened.config.on_error == "raise"

    # --- copies -------------------------------------------------------------------------------------------------------

    def __copy__(self) -> Self:
        made = super().__copy__()
        made._held = _Held(self._held.layer, self._held.opens)
        return made

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        name = type(self).__name__
        if isinstance(self.layer, AutoPrunedLayer):
            raise ConfigError(
                f"an open layer does not pickle: give {name} a function that opens it, such as "
                "layer=functools.partial(open_layer, path) with open_layer at the top of a module"
            )
        fields = type(self).model_fields.items()
        options = {key: getattr(self, key) for key, info in fields if not info.exclude}
        try:
            pickle.dumps(options)
        except Exception as error:
            raise ConfigError(
                f"{name} does not pickle: its functions have to stand at the top of a module ({error})"
            ) from error
        return _remade, (type(self), options)

    @field_serializer("layer")
    def _codebook_of(self, layer: Any) -> str:
        """The path of the store: two codebooks do not share the entries of an ingestion cache."""
        try:
            return self.opened_layer.codebook.location
        except Exception:
            logger.debug("the layer could not be opened to be named", exc_info=True)
            return str(getattr(layer, "__qualname__", type(layer).__qualname__))


def _remade(component: type[HoldsLayer], options: dict[str, Any]) -> HoldsLayer:
    """An unpickled component; its options were checked where it was made."""
    return component.model_construct(**options)
