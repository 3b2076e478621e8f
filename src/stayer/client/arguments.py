"""Arguments and results of functions, to and from JSON by their annotations. Used by `App`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import PurePath
from types import GenericAlias
from typing import Any, cast, get_args, get_type_hints

import msgspec

from stayer.core.decoding import convert
from stayer.core.errors import BadInput
from stayer.core.model import Value
from stayer.task.context import Context


class Arguments:
    """The arguments of a function, to and from one JSON object by parameter name."""

    def __init__(self, function: Callable[..., object], name: str) -> None:
        self._function = function
        self._name = name
        self._signature = inspect.signature(function)

    @functools.cached_property
    def hints(self) -> dict[str, Any]:
        """Resolved late: an annotation may name what the module defines further down."""
        try:
            return get_type_hints(self._function, include_extras=True)
        except NameError as error:
            raise TypeError(
                f"task {self._name}: its annotations must be importable when it is called: {error}"
            ) from None

    @functools.cached_property
    def contexts(self) -> tuple[str, ...]:
        """The parameters that are given the running task; no caller passes them."""
        return tuple(
            name
            for name in self._signature.parameters
            if (hint := self.hints.get(name)) is Context or Context in get_args(hint)
        )

    @functools.cached_property
    def _signature_of_call(self) -> inspect.Signature:
        """What a caller passes."""
        known = self._signature.parameters
        kept = [known[name] for name in known if name not in self.contexts]
        return self._signature.replace(parameters=kept)

    def pack(self, *args: object, **kwargs: object) -> Value:
        """Pack what a call passes; defaults are left out. TypeError if the function can't be called
        so, or what it would get elsewhere does not have the annotated type.
        """
        packed: dict[str, Value] = {}
        for name, value in self._bound(args, kwargs).items():
            try:
                packed[name] = to_json(value)
                if type(value) is not self._plain[name]:
                    self._convert(name, packed[name])
            except (TypeError, msgspec.ValidationError) as error:
                raise TypeError(f"task {self._name}: argument {name!r}: {error}") from None
        return cast(Value, packed)

    def _bound(self, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
        """Return what each parameter is given, in their order; quickly, if it is all of them."""
        by_name = dict(zip(self._positional, args, strict=False))
        if (
            self._all_can_be_named
            and len(args) == len(by_name)
            and not by_name.keys() & kwargs.keys()
        ):
            by_name.update(kwargs)
            if by_name.keys() == self._plain.keys():
                return {name: by_name[name] for name in self._plain}
        try:
            return self._signature_of_call.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"task {self._name}: {error}") from None

    def unpack(
        self, parameters: Value, context: Context | None
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        """Read the call that stored parameters ask for; BadInput if there is no such call."""
        given = {} if parameters is None else parameters
        if not isinstance(given, dict):
            raise BadInput(f"task {self._name}: its parameters are to be an object, by name")
        converted: dict[str, object] = {}
        for name, is_needed, plain in self._parameters:
            if name in given:
                value = given[name]
                is_converted = type(value) is plain
                converted[name] = value if is_converted else self._convert_argument(name, value)
            elif is_needed:
                self._refuse_unknown(given)
                raise BadInput(f"task {self._name}: parameter {name!r} is missing")
        if len(converted) < len(given):
            self._refuse_unknown(given)
        return self._with(context, converted)

    def _refuse_unknown(self, given: dict[str, Any]) -> None:
        for name in given:
            if name not in self._signature_of_call.parameters:
                raise BadInput(f"task {self._name} has no parameter {name!r}")

    def complete(
        self, context: Context | None, *args: object, **kwargs: object
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        """Complete a direct call, with the running task where the caller left it out."""
        if any(isinstance(value, Context) for value in (*args, *kwargs.values())):
            return args, kwargs
        return self._with(context, self._signature_of_call.bind(*args, **kwargs).arguments)

    def _with(
        self, context: Context | None, given: dict[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        if self._all_can_be_named:
            for name in self.contexts:
                given[name] = context
            return (), given
        bound = self._signature.bind_partial()
        bound.arguments.update(given)
        bound.arguments.update(dict.fromkeys(self.contexts, context))
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def _convert_argument(self, name: str, value: Value) -> object:
        try:
            return self._convert(name, value)
        except msgspec.ValidationError as error:
            raise BadInput(f"task {self._name}: parameter {name!r}: {error}") from None

    def _convert(self, name: str, value: Value) -> object:
        return from_json(value, self._types[name])

    @functools.cached_property
    def _types(self) -> dict[str, Any]:
        """What each parameter is made into."""
        types: dict[str, Any] = {}
        for name, parameter in self._signature.parameters.items():
            hint = self.hints.get(name, Any)
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                hint = GenericAlias(tuple, (hint, ...))
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                hint = GenericAlias(dict, (str, hint))
            types[name] = hint
        return types

    @functools.cached_property
    def _parameters(self) -> tuple[tuple[str, bool, type | None], ...]:
        """What may be passed, whether it must be, and which plain type needs no conversion."""
        return tuple(
            (
                name,
                parameter.default is parameter.empty and parameter.kind in _NAMED,
                next((plain for plain in _PLAIN if plain is self._types[name]), None),
            )
            for name, parameter in self._signature_of_call.parameters.items()
        )

    @functools.cached_property
    def _plain(self) -> dict[str, type | None]:
        """What may be passed, and the type that needs no conversion."""
        return {name: plain for name, _, plain in self._parameters}

    @functools.cached_property
    def _positional(self) -> tuple[str, ...]:
        """What may be passed without its name."""
        return tuple(
            name
            for name, parameter in self._signature_of_call.parameters.items()
            if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        )

    @functools.cached_property
    def _all_can_be_named(self) -> bool:
        """Each parameter can be passed by its name, as almost always."""
        kinds = {parameter.kind for parameter in self._signature.parameters.values()}
        return kinds <= {
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            inspect.Parameter.KEYWORD_ONLY,
        }


_NAMED = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
)


_PLAIN = (str, int, float, bool)


def to_json(value: object) -> Value:
    """Return what JSON makes of a value; TypeError if it can't say it."""
    if value is None or type(value) in _PLAIN:
        return cast(Value, value)
    return cast(Value, msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_other))


def from_json(value: Value, hint: Any) -> object:
    """Strict, so that "1" is no number; only what JSON lacks is made from text."""
    converted: object = convert(value, hint, str_keys=True, dec_hook=_decode_other)
    return converted


def _encode_other(value: object) -> object:
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"JSON can't say what is of class {type(value).__qualname__}")


def _decode_other(kind: type[object], value: object) -> object:
    if isinstance(value, kind):
        return value
    if issubclass(kind, PurePath) and isinstance(value, str):
        return kind(value)
    raise TypeError(f"class {kind.__qualname__} can't be made from JSON")
