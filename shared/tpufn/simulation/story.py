"""What happens by itself: the planned steps that are due, one after the other, each at its own moment.

`_HAPPENS` is the ordinary course, `_DETOURS` the faults that strike on the way, `_STRIKES` the faults of running nodes.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from tpufn.domain.cloud import Health, NodeState
from tpufn.domain.machine import allows
from tpufn.simulation.capacity import place_of
from tpufn.simulation.faults import FAULTS, Rule, Stage
from tpufn.simulation.life import LIFE, Event
from tpufn.simulation.resource import Resource, Step
from tpufn.simulation.texts import say
from tpufn.simulation.world import World


def advance(world: World, now: float) -> None:
    """Bring the world to `now`."""
    _catch_up(world, now)
    for name in dict.fromkeys(rule.fault for rule in world.faults.armed()):
        if FAULTS[name].stage is Stage.LIVE:
            _strike(world, name, now)
    _catch_up(world, now)


def _catch_up(world: World, now: float) -> None:
    while (due := world.next_due()) and due[1].at <= now:
        _happen(world, *due)
        serve(world, due[1].at)


def _happen(world: World, resource: Resource, step: Step) -> None:
    """Take one step of a plan; one that is no longer possible is dropped."""
    resource = resource.done(step)
    if not allows(LIFE, resource.phase, step.event):
        world.put(resource)
        return
    for name, detour in _DETOURS.get(step.event, {}).items():
        if struck := world.fault(name, resource):
            detour(world, resource, step.at, *struck)
            break
    else:
        _course(world, resource, step)


def serve(world: World, at: float) -> None:
    """Grant freed chips to what waits for them: the longest waiting first, a smaller one may overtake."""
    if not world.freed:
        return
    world.freed = False
    for resource in world.ripe():
        if world.has_room(resource):
            world.move(resource, Event.GRANT, at, granted_at=at, ripe_at=None)


def reclaim(
    world: World, resource: Resource, at: float, *, notice: float | None, state: NodeState | None, lag: float = 0.0
) -> None:
    """Plan a preemption: a notice now and the kill after it, or the kill now. The API shows it `lag` seconds later."""
    killed = at + (notice or 0.0)
    steps = [Step(killed + lag, Event.PREEMPT)]
    if notice is not None:
        steps.append(Step(at, Event.NOTICE))
    if lag:
        steps.append(Step(killed, Event.KILL))
    world.put(replace(resource, doom=state, reclaiming=True).planning(*steps))


def fail(
    world: World,
    resource: Resource,
    at: float,
    error: tuple[int, str],
    *,
    event: Event = Event.FAIL,
    node: NodeState | None = None,
) -> None:
    """The queued resource ends FAILED, with its failed data; it keeps its quota until it is deleted."""
    code, text = error
    reclaimed = at if resource.holds_capacity else resource.reclaimed_at
    world.move(resource, event, at, error_code=code, error=text, node=node, reclaimed_at=reclaimed, ripe_at=None)


def _course(world: World, resource: Resource, step: Step) -> None:
    if action := _HAPPENS.get(step.event):
        action(world, resource, step.at)
    else:
        world.move(resource, step.event, step.at)


def _grant(world: World, resource: Resource, at: float) -> None:
    if world.capacity.is_stocked_out(resource):
        _stock_out(world, resource, at)
    elif world.has_room(resource):
        world.move(resource, Event.GRANT, at, granted_at=at)
    else:
        _queue_up(world, resource, at)


def _queue_up(world: World, resource: Resource, at: float) -> None:
    patience = world.capacity.at(place_of(resource)).patience
    steps = () if patience is None else (Step(at + world.capacity.scaled(patience), Event.STARVE),)
    world.put(replace(resource, ripe_at=at).planning(*steps))


def _stock_out(world: World, resource: Resource, at: float) -> None:
    fail(world, resource, at, say("stockout", key=resource.key, zone=resource.zone))


def _starve(world: World, resource: Resource, at: float) -> None:
    fail(world, resource, at, say("stockout", key=resource.key, zone=resource.zone), event=Event.STARVE)


def _expire(world: World, resource: Resource, at: float) -> None:
    fail(world, resource, at, say("expired", key=resource.key), event=Event.EXPIRE)


def _ready(world: World, resource: Resource, at: float) -> None:
    _plan_end(world, world.move(resource, Event.READY, at, active_at=at), at)


def _plan_end(world: World, resource: Resource, at: float) -> None:
    lifetime, notice = world.capacity.lifetime(resource), world.capacity.notice(resource)
    if lifetime is None:
        return
    end = at + lifetime
    warned = () if notice is None else (Step(max(at, end - notice), Event.NOTICE),)
    doomed = replace(resource, doom=world.capacity.end_state(resource))
    world.put(doomed.planning(Step(end, Event.PREEMPT), *warned))


def _connect(world: World, resource: Resource, at: float) -> None:
    workers = world.hosts.provision(resource.name, resource.zone, resource.hosts)
    world.move(resource, Event.ENDPOINTS, at, workers=workers)


def _recover(world: World, resource: Resource, at: float) -> None:
    world.move(resource, Event.HEALTH, at, health=Health.HEALTHY)


def _notice(world: World, resource: Resource, at: float) -> None:
    world.hosts.notice(resource.name)
    world.move(resource, Event.NOTICE, at)


def _kill(world: World, resource: Resource, at: float) -> None:
    world.hosts.kill(resource.name)
    world.move(resource, Event.KILL, at)


def _preempt(world: World, resource: Resource, at: float) -> None:
    world.hosts.kill(resource.name)
    world.move(resource, Event.PREEMPT, at, node=resource.doom or NodeState.PREEMPTED, reclaimed_at=at)


def _lose(world: World, resource: Resource, at: float) -> None:
    world.hosts.kill(resource.name)
    world.move(resource, Event.LOSE, at, node=resource.doom or NodeState.UNKNOWN, reclaimed_at=at)


def _vanish(world: World, resource: Resource, at: float) -> None:
    world.hosts.destroy(resource.name)
    world.remove(resource, at)


_HAPPENS: Mapping[Event, Callable[[World, Resource, float], None]] = MappingProxyType(
    {
        Event.GRANT: _grant,
        Event.READY: _ready,
        Event.ENDPOINTS: _connect,
        Event.HEALTH: _recover,
        Event.NOTICE: _notice,
        Event.KILL: _kill,
        Event.PREEMPT: _preempt,
        Event.LOSE: _lose,
        Event.STARVE: _starve,
        Event.EXPIRE: _expire,
        Event.GONE: _vanish,
    }
)
"""What an event does beyond its place in the table of the life."""


def _fail_stockout(world: World, resource: Resource, at: float, _rule: Rule, _seconds: float) -> None:
    _stock_out(world, resource, at)


def _fail_addresses(world: World, resource: Resource, at: float, _rule: Rule, _seconds: float) -> None:
    fail(world, resource, at, say("quota-address", key=resource.key, region=resource.region))


def _become_husk(world: World, resource: Resource, at: float, _rule: Rule, _seconds: float) -> None:
    world.move(resource, Event.SUSPEND, at)


def _queue_long(world: World, resource: Resource, at: float, _rule: Rule, seconds: float) -> None:
    world.move(resource, Event.QUEUE, at, after={Event.GRANT: seconds})


def _fail_preempted(world: World, resource: Resource, at: float, _rule: Rule, _seconds: float) -> None:
    fail(world, resource, at, say("preempted-while-creating", key=resource.key), node=NodeState.PREEMPTED)


def _lag(world: World, resource: Resource, at: float, _rule: Rule, seconds: float) -> None:
    lagging = world.move(resource, Event.LAG, at, after={Event.CONFIRM: seconds}, active_at=at)
    _plan_end(world, lagging, at)


def _connect_late(world: World, resource: Resource, at: float, _rule: Rule, seconds: float) -> None:
    world.put(resource.planning(Step(at + seconds, Event.ENDPOINTS)))


def _connect_partly(world: World, resource: Resource, at: float, _rule: Rule, _seconds: float) -> None:
    workers = world.hosts.provision(resource.name, resource.zone, resource.hosts)
    world.move(resource, Event.ENDPOINTS, at, workers=workers[:-1])


def _stay_silent(world: World, resource: Resource, _at: float, _rule: Rule, _seconds: float) -> None:
    world.put(resource)


Strike = Callable[[World, Resource, float, Rule, float], None]
"""What a fault does: world, resource, moment, rule, seconds."""

_DETOURS: Mapping[Event, Mapping[str, Strike]] = MappingProxyType(
    {
        Event.QUEUE: {"late-grant": _queue_long},
        Event.GRANT: {"stockout-late": _fail_stockout, "quota-address": _fail_addresses, "husk": _become_husk},
        Event.READY: {"preempt-while-creating": _fail_preempted, "create-late": _lag},
        Event.ENDPOINTS: {"ready-no-endpoints": _connect_late, "partial-endpoints": _connect_partly},
        Event.HEALTH: {"missing-health": _stay_silent},
    }
)
"""The faults that may happen instead of an event."""


def _sicken(world: World, resource: Resource, at: float, rule: Rule, seconds: float) -> None:
    steps = () if rule.seconds is None else (Step(at + seconds, Event.HEALTH),)
    world.put(replace(resource, health=Health.UNHEALTHY_MAINTENANCE).planning(*steps))


def _lose_node(world: World, resource: Resource, at: float, rule: Rule, _seconds: float) -> None:
    _lose(world, replace(resource, doom=rule.end_state), at)


def _preempt_soon(world: World, resource: Resource, at: float, rule: Rule, seconds: float) -> None:
    reclaim(world, resource, at, notice=seconds or None, state=rule.end_state)


def _die_unseen(world: World, resource: Resource, at: float, rule: Rule, seconds: float) -> None:
    reclaim(world, resource, at, notice=None, state=rule.end_state, lag=seconds)


def _is_healthy(resource: Resource) -> bool:
    return resource.health is Health.HEALTHY


def _is_spared(resource: Resource) -> bool:
    return _is_healthy(resource) and not resource.reclaiming


def _is_connected(resource: Resource) -> bool:
    return bool(resource.workers)


_STRIKES: Mapping[str, tuple[Callable[[Resource], bool], Strike]] = MappingProxyType(
    {
        "ready-unhealthy": (_is_healthy, _sicken),
        "node-lost": (_is_connected, _lose_node),
        "preempt": (_is_spared, _preempt_soon),
        "api-lags": (_is_spared, _die_unseen),
    }
)
"""The faults of READY nodes, with the condition in which they can strike."""


def _strike(world: World, name: str, now: float) -> None:
    can_strike, strike = _STRIKES[name]
    for key in sorted(world.resources):
        resource = world.resources[key]
        if resource.is_ready and can_strike(resource) and (struck := world.fault(name, resource)):
            strike(world, resource, now, *struck)
            serve(world, now)
