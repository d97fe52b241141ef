"""Which names one cell reads before it binds them, and which it binds: by its syntax tree, as Python scopes them. Pure.

A read is *immediate* when it happens as the cell runs, *deferred* in the body of a function, which may run later or
never. A branch that is not surely taken binds nevertheless: its author knew why.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from kernels.replay.ipython_source import CellSource

_OPEN_DOORS: Final = frozenset({"exec", "globals", "locals", "get_ipython", "execfile", "__builtins__"})
"""Who calls these may define any name."""
_CATCHES: Final = frozenset({"NameError", "Exception", "BaseException"})
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass
class CellNames:
    """What a cell asks of those before it, in the order of asking, and what it leaves to those after it.

    `doubtful`: read where they may be bound or not. `later`: bound by its functions when they are called.
    `anything`: it may bind any name. `future`: annotations of it and of later cells are not evaluated.
    """

    reads: dict[str, None] = field(default_factory=dict)
    deferred: dict[str, None] = field(default_factory=dict)
    doubtful: dict[str, None] = field(default_factory=dict)
    binds: set[str] = field(default_factory=set)
    later: set[str] = field(default_factory=set)
    unbinds: set[str] = field(default_factory=set)
    anything: bool = False
    resets: bool = False
    future: bool = False

    def asks_for(self, name: str) -> bool:
        """Whether it reads a name that it may not have bound by then."""
        return name in self.reads or name in self.deferred or name in self.doubtful


def names_of(source: CellSource, *, future: bool = False) -> CellNames:
    """The names of a cell; of one that is nested too deeply to be read, none, and any may be bound."""
    found = CellNames(binds=set(source.words), anything=source.anything, resets=source.resets, future=future)
    if source.tree is None:
        return found
    reader = _Reader(found)
    try:
        reader.visit(source.tree)
    except RecursionError:
        return CellNames(anything=True, future=future)
    for name in found.doubtful:
        if name not in found.binds:
            found.reads.setdefault(name)
    return found


@dataclass
class _Scope:
    """`kind`: module, class, function or comprehension. `names`: bound in it, of a function wherever in its body."""

    kind: str
    names: set[str] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)


class _Reader(ast.NodeVisitor):
    """Visits a tree in the order in which it would be evaluated."""

    def __init__(self, found: CellNames) -> None:
        self._found = found
        self._scopes = [_Scope("module", found.binds)]
        self._fickle: set[str] = set()  # bound, and unbound again in a branch
        self._in_branch = False
        self._protected = False

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read(node.id)
        elif isinstance(node.ctx, ast.Store):
            self._bind(node.id)
        else:
            self._read(node.id)
            self._unbind(node.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        self._each(node.targets)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._read(node.target.id)
        self.visit(node.value)
        self.visit(node.target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)
        if not self._in_function():
            self._annotation(node.annotation)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        around = [scope for scope in self._scopes if scope.kind != "comprehension"]
        self._bind(node.target.id, around[-1])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.visit(node.value)
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        if isinstance(node.ctx, ast.Store) and owner in ("builtins", "__main__"):
            self._found.binds.add(node.attr)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id == "vars" and not node.args:
            self._found.anything = True
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for each in node.names:
            self._bind(each.asname or each.name.partition(".")[0])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for each in node.names:
            if each.name == "*":
                self._found.anything = True
            else:
                self._bind(each.asname or each.name)
        if node.module == "__future__" and any(each.name == "annotations" for each in node.names):
            self._found.future = True

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self.visit(node.target)
        self._each([*node.body, *node.orelse])

    def visit_AsyncFor(self, node: ast.AsyncFor) -> None:
        self.visit_For(node)

    def visit_If(self, node: ast.If | ast.IfExp) -> None:
        self.visit(node.test)
        with self._branch():
            for part in (node.body, node.orelse):
                self._each(part if isinstance(part, list) else [part])

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit_If(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.visit(node.values[0])
        with self._branch():
            self._each(node.values[1:])

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        with self._protection(any(_catches_names(each.type) for each in node.handlers)):
            self._each(node.body)
        with self._branch():
            self._each([*node.handlers, *node.orelse])
        self._each(node.finalbody)

    def visit_TryStar(self, node: ast.TryStar) -> None:
        self.visit_Try(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self.visit(node.type)
        names = self._scopes[-1].names
        before = node.name is None or node.name in names
        if node.name is not None:
            self._bind(node.name)
        self._each(node.body)
        if node.name is not None and before:
            self._unbind(node.name)
        elif node.name is not None and self._scopes[-1].kind == "module":
            names.discard(node.name)  # Python unbinds it, and nothing else bound it

    def visit_match_case(self, node: ast.match_case) -> None:
        with self._branch():
            self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        self.generic_visit(node)
        if node.name is not None:
            self._bind(node.name)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self.visit_MatchAs(node)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.generic_visit(node)
        if node.rest is not None:
            self._bind(node.rest)

    def visit_FunctionDef(self, node: _Function) -> None:
        self._each(node.decorator_list)
        self._defaults(node.args)
        with self._inside(_Scope("comprehension", _type_parameters(node))):
            for each in [*_arguments(node.args), node]:
                written = each.annotation if isinstance(each, ast.arg) else each.returns
                if written is not None:
                    self._annotation(written)
        self._bind(node.name)
        self._function(node.args, node.body, _type_parameters(node))

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._defaults(node.args)
        self._function(node.args, [node.body], set())

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._each(node.decorator_list)
        with self._inside(_Scope("comprehension", _type_parameters(node))):
            self._each([*node.bases, *node.keywords])
            with self._inside(_Scope("class", {"__module__", "__qualname__"})):
                self._each(node.body)
        self._bind(node.name)

    def visit_ListComp(self, node: _Comprehension) -> None:
        self.visit(node.generators[0].iter)
        with self._inside(_Scope("comprehension")):
            for number, each in enumerate(node.generators):
                if number:
                    self.visit(each.iter)
                self.visit(each.target)
                self._each(each.ifs)
            self._each([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self.visit_ListComp(node)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self.visit_ListComp(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self.visit_ListComp(node)

    def visit_TypeAlias(self, node: ast.AST) -> None:
        self.visit(node.name)  # type: ignore[attr-defined] # Python 3.12; its value is evaluated when it is asked for

    def _function(self, arguments: ast.arguments, body: Iterable[ast.AST], more: set[str]) -> None:
        """A body that runs some other time: what it reads is deferred, what it declares global is bound by then."""
        bound, outside, globally = set[str](), set[str](), set[str]()
        for node in _walk_own(body):
            bound.update(_bound_by(node))
            if isinstance(node, ast.Global):
                globally.update(node.names)
            elif isinstance(node, ast.Nonlocal):
                outside.update(node.names)
        self._found.later |= globally & bound
        names = (bound | {each.arg for each in _arguments(arguments)} | more) - globally - outside
        with self._inside(_Scope("function", names, globally)):
            self._each(body)

    def _read(self, name: str) -> None:
        if name in _OPEN_DOORS:
            self._found.anything = True
        deferred = False
        for scope in reversed(self._scopes[1:]):
            if name in scope.outside:
                deferred = True
                break
            if name in scope.names and not (scope.kind == "class" and deferred):
                return
            deferred = deferred or scope.kind == "function"
        if name in self._found.binds or self._found.anything or self._protected:
            if name in self._fickle:
                self._found.doubtful.setdefault(name)
            return
        if deferred or self._in_function():
            self._found.deferred.setdefault(name)
        elif name in self._found.later:
            return
        elif self._in_branch:
            self._found.doubtful.setdefault(name)
        else:
            self._found.reads.setdefault(name)

    def _bind(self, name: str, scope: _Scope | None = None) -> None:
        scope = scope or self._scopes[-1]
        if scope.kind == "function" and name in scope.outside:
            return
        scope.names.add(name)
        if scope.kind == "module":
            self._found.unbinds.discard(name)
            self._fickle.discard(name)

    def _unbind(self, name: str) -> None:
        scope = self._scopes[-1]
        if scope.kind == "module" and self._in_branch:
            self._fickle.add(name)
        elif scope.kind == "module":
            scope.names.discard(name)
            self._found.unbinds.add(name)

    def _annotation(self, node: ast.AST) -> None:
        if not self._found.future:
            self.visit(node)

    def _defaults(self, arguments: ast.arguments) -> None:
        self._each([*arguments.defaults, *(each for each in arguments.kw_defaults if each is not None)])

    def _each(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _in_function(self) -> bool:
        return any(scope.kind == "function" for scope in self._scopes)

    @contextmanager
    def _inside(self, scope: _Scope) -> Iterator[None]:
        branch, self._in_branch = self._in_branch, self._in_branch and scope.kind != "function"
        self._scopes.append(scope)
        yield
        self._scopes.pop()
        self._in_branch = branch

    @contextmanager
    def _branch(self) -> Iterator[None]:
        before, self._in_branch = self._in_branch, True
        yield
        self._in_branch = before

    @contextmanager
    def _protection(self, protects: bool) -> Iterator[None]:  # noqa: FBT001
        before, self._protected = self._protected, self._protected or protects
        yield
        self._protected = before


def _walk_own(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Every node of a function's own scope: nested functions and classes by their heads, comprehensions whole."""
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _Function | ast.ClassDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def _bound_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, _Function | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (each.asname or each.name.partition(".")[0] for each in node.names)
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name is not None:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest is not None:
        yield node.rest


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    ordinary = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [*ordinary, *(each for each in (arguments.vararg, arguments.kwarg) if each is not None)]


def _type_parameters(node: ast.AST) -> set[str]:
    return {each.name for each in getattr(node, "type_params", ())}


def _catches_names(caught: ast.expr | None) -> bool:
    kinds = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(each is None or (isinstance(each, ast.Name) and each.id in _CATCHES) for each in kinds)
