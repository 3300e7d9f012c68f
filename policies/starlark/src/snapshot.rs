//! The snapshot as a script sees it: `s`, `s.group` and the members.
//!
//! Values hold the place of a member and no data: what a script does not read is never copied.
#![allow(clippy::panic, reason = "derived for values that are never written out; nothing here panics itself")]
#![allow(unsafe_code, reason = "derived: `ProvidesStaticType` names a type without its lifetimes")]

use std::{cell::Cell, fmt, hash::Hash as _};

use allocative::Allocative;
use starlark::{
    collections::StarlarkHasher,
    environment::{Methods, MethodsBuilder},
    starlark_module, starlark_simple_value,
    values::{
        Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Value, ValueLike, dict::AllocDict,
        list::AllocList, starlark_value, structs::AllocStruct,
    },
};

use crate::{
    data::Data,
    words,
    world::exports::tanist::policy::types::{
        Condition, Failure, Group, Member, Outcome, Position, Sequence, Snapshot, Transition,
    },
};

thread_local! {
    static ASKED: Cell<Option<&'static Snapshot>> = const { Cell::new(None) };
}

/// Keeps the snapshot for the values of the script, to the end of the instance: it is asked once.
pub fn keep(snapshot: Snapshot) {
    ASKED.set(Some(Box::leak(Box::new(snapshot))));
}

/// Forgets the snapshot.
pub fn forget() {
    ASKED.set(None);
}

/// The snapshot of the question; `None` while the script is loaded.
pub fn asked() -> Option<&'static Snapshot> {
    ASKED.get()
}

/// The member at this place.
pub fn member(place: u32) -> Option<&'static Member> {
    asked()?.members.get(place as usize)
}

/// The value of a field, made when a script reads it.
type Read<T> = for<'v> fn(&'static T, Heap<'v>) -> Value<'v>;

/// Every field of `s`, in the order of the contract. README.md has the same list.
const SNAPSHOT: &[(&str, Read<Snapshot>)] = &[
    ("now", |s, heap| heap.alloc(s.now)),
    ("group", |_, heap| heap.alloc(GroupValue {})),
    ("members", |s, heap| members(heap, s, |_| true)),
    ("history", |s, heap| heap.alloc(AllocList(s.history.iter().map(|each| transition(each, heap))))),
    ("parameters", |s, heap| parameters(&s.parameters, heap)),
];

const GROUP: &[(&str, Read<Group>)] = &[
    ("name", |g, heap| heap.alloc(g.name.as_str())),
    ("namespace", |g, heap| heap.alloc(g.namespace.as_str())),
    ("replicas", |g, heap| heap.alloc(g.replicas)),
    ("primaries", |g, heap| heap.alloc(g.primaries)),
    ("has_secondaries", |g, _| Value::new_bool(g.has_secondaries)),
    ("term", |g, heap| heap.alloc(g.term)),
    ("preferred_primary", |g, heap| text(g.preferred_primary.as_ref(), heap)),
    ("high_water", |g, heap| g.high_water.as_ref().map_or_else(Value::new_none, |each| sequence(each, heap))),
    ("labels", |g, heap| pairs(&g.labels, heap)),
    ("facts", |g, heap| pairs(&g.facts, heap)),
];

const MEMBER: &[(&str, Read<Member>)] = &[
    ("name", |m, heap| heap.alloc(m.name.as_str())),
    ("ordinal", |m, heap| heap.alloc(m.ordinal)),
    ("phase", |m, heap| heap.alloc(words::phase(m.phase))),
    ("phase_since", |m, heap| heap.alloc(m.phase_since)),
    ("ready", |m, _| Value::new_bool(m.ready)),
    ("role", |m, heap| heap.alloc(words::role(m.role))),
    ("role_since", |m, heap| heap.alloc(m.role_since)),
    ("role_detail", |m, heap| text(m.role_detail.as_ref(), heap)),
    ("last_primary", |m, heap| m.last_primary.map_or_else(Value::new_none, |at| heap.alloc(at))),
    ("term", |m, heap| m.term.map_or_else(Value::new_none, |term| heap.alloc(term))),
    ("position", |m, heap| position(&m.position, heap)),
    ("node", |m, heap| text(m.node.as_ref(), heap)),
    ("zone", |m, heap| text(m.zone.as_ref(), heap)),
    ("failures", |m, heap| heap.alloc(m.failures)),
    ("last_failure", |m, heap| m.last_failure.as_ref().map_or_else(Value::new_none, |each| failure(each, heap))),
    ("marked", |m, heap| m.marked.map_or_else(Value::new_none, |at| heap.alloc(at))),
    ("conditions", |m, heap| heap.alloc(AllocList(m.conditions.iter().map(|each| condition(each, heap))))),
    ("labels", |m, heap| pairs(&m.labels, heap)),
    ("facts", |m, heap| pairs(&m.facts, heap)),
    ("barred", |m, heap| text(m.barred.as_ref(), heap)),
];

/// The value of the field with this name.
fn read<'v, T>(fields: &[(&str, Read<T>)], name: &str, of: &'static T, heap: Heap<'v>) -> Option<Value<'v>> {
    fields.iter().find(|(field, _)| *field == name).map(|(_, read)| read(of, heap))
}

fn names<T>(fields: &[(&str, Read<T>)]) -> Vec<String> {
    fields.iter().map(|(name, _)| (*name).to_owned()).collect()
}

fn members<'v>(heap: Heap<'v>, snapshot: &'static Snapshot, filter: fn(&Member) -> bool) -> Value<'v> {
    let places = (0_u32..).zip(&snapshot.members).filter(|(_, member)| filter(member));
    heap.alloc(AllocList(places.map(|(place, _)| heap.alloc(MemberValue { place }))))
}

fn text<'v>(text: Option<&String>, heap: Heap<'v>) -> Value<'v> {
    text.map_or_else(Value::new_none, |text| heap.alloc(text.as_str()))
}

fn pairs<'v>(pairs: &[(String, String)], heap: Heap<'v>) -> Value<'v> {
    heap.alloc(AllocDict(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))))
}

fn look_up<'v>(pairs: &[(String, String)], key: &str, heap: Heap<'v>) -> Value<'v> {
    text(pairs.iter().find(|(each, _)| each == key).map(|(_, value)| value), heap)
}

fn sequence<'v>(of: &Sequence, heap: Heap<'v>) -> Value<'v> {
    heap.alloc(AllocStruct([("history", text(of.history.as_ref(), heap)), ("number", heap.alloc(of.number))]))
}

fn position<'v>(of: &Position, heap: Heap<'v>) -> Value<'v> {
    let (known, why) = match of {
        Position::Known(known) => (sequence(known, heap), Value::new_none()),
        Position::Unknown(why) => (Value::new_none(), heap.alloc(why.as_str())),
        Position::Empty | Position::NotAsked => (Value::new_none(), Value::new_none()),
    };
    heap.alloc(AllocStruct([("state", heap.alloc(words::position(of))), ("sequence", known), ("why", why)]))
}

fn condition<'v>(of: &Condition, heap: Heap<'v>) -> Value<'v> {
    let Condition { name, since, detail } = of;
    heap.alloc(AllocStruct([
        ("name", heap.alloc(name.as_str())),
        ("since", heap.alloc(*since)),
        ("detail", text(detail.as_ref(), heap)),
    ]))
}

fn failure<'v>(of: &Failure, heap: Heap<'v>) -> Value<'v> {
    let Failure { command, outcome, at } = of;
    let code = if let Outcome::Exited(code) = outcome { heap.alloc(*code) } else { Value::new_none() };
    heap.alloc(AllocStruct([
        ("command", heap.alloc(command.as_str())),
        ("outcome", heap.alloc(words::outcome(*outcome))),
        ("code", code),
        ("at", heap.alloc(*at)),
    ]))
}

fn transition<'v>(of: &Transition, heap: Heap<'v>) -> Value<'v> {
    let Transition { at, what, member, detail } = of;
    heap.alloc(AllocStruct([
        ("at", heap.alloc(*at)),
        ("what", heap.alloc(what.as_str())),
        ("member", text(member.as_ref(), heap)),
        ("detail", text(detail.as_ref(), heap)),
    ]))
}

/// The host has checked that the parameters are a JSON object.
fn parameters<'v>(json: &str, heap: Heap<'v>) -> Value<'v> {
    match serde_json::from_str::<serde_json::Value>(json) {
        Ok(value) => heap.alloc(value),
        Err(_) => Value::new_none(),
    }
}

/// `s`: the snapshot.
#[derive(Debug, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub struct SnapshotValue {}
starlark_simple_value!(SnapshotValue);

impl fmt::Display for SnapshotValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<snapshot>")
    }
}

#[starlark_value(type = "snapshot")]
impl<'v> StarlarkValue<'v> for SnapshotValue {
    fn get_methods() -> Option<&'static Methods> {
        Some(SNAPSHOT_METHODS.methods())
    }

    fn get_attr(&self, name: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        read(SNAPSHOT, name, asked()?, heap)
    }

    fn has_attr(&self, name: &str, _: Heap<'v>) -> bool {
        SNAPSHOT.iter().any(|(field, _)| *field == name)
    }

    fn dir_attr(&self) -> Vec<String> {
        names(SNAPSHOT)
    }
}

#[starlark_module]
fn snapshot_methods(builder: &mut MethodsBuilder) {
    /// The members that may be chosen now: those that are not barred.
    fn eligible<'v>(this: &SnapshotValue, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        let _ = this;
        Ok(asked().map_or_else(Value::new_none, |asked| members(heap, asked, |member| member.barred.is_none())))
    }
}
starlark::methods_static!(SNAPSHOT_METHODS = snapshot_methods);

/// `s.group`: the group.
#[derive(Debug, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
struct GroupValue {}
starlark_simple_value!(GroupValue);

impl fmt::Display for GroupValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(asked().map_or("<group>", |asked| &asked.group.name))
    }
}

#[starlark_value(type = "group")]
impl<'v> StarlarkValue<'v> for GroupValue {
    fn get_methods() -> Option<&'static Methods> {
        Some(GROUP_METHODS.methods())
    }

    fn get_attr(&self, name: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        read(GROUP, name, &asked()?.group, heap)
    }

    fn has_attr(&self, name: &str, _: Heap<'v>) -> bool {
        GROUP.iter().any(|(field, _)| *field == name)
    }

    fn dir_attr(&self) -> Vec<String> {
        names(GROUP)
    }
}

#[starlark_module]
fn group_methods(builder: &mut MethodsBuilder) {
    /// The value of the label, or None.
    fn label<'v>(
        this: &GroupValue,
        #[starlark(require = pos)] name: &str,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let _ = this;
        Ok(asked().map_or_else(Value::new_none, |asked| look_up(&asked.group.labels, name, heap)))
    }

    /// The value of the fact, or None.
    fn fact<'v>(
        this: &GroupValue,
        #[starlark(require = pos)] name: &str,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let _ = this;
        Ok(asked().map_or_else(Value::new_none, |asked| look_up(&asked.group.facts, name, heap)))
    }
}
starlark::methods_static!(GROUP_METHODS = group_methods);

/// A member of the snapshot, as a script sees it.
#[derive(Debug, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub struct MemberValue {
    /// The place in the snapshot's list.
    pub place: u32,
}
starlark_simple_value!(MemberValue);

impl fmt::Display for MemberValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(member(self.place).map_or("<member>", |member| &member.name))
    }
}

#[starlark_value(type = "member")]
impl<'v> StarlarkValue<'v> for MemberValue {
    fn get_methods() -> Option<&'static Methods> {
        Some(MEMBER_METHODS.methods())
    }

    fn get_attr(&self, name: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        // Not a field of the contract: how recent its data is, as the contract orders it.
        if name == "data" {
            return Some(heap.alloc(Data { place: self.place }));
        }
        read(MEMBER, name, member(self.place)?, heap)
    }

    fn has_attr(&self, name: &str, _: Heap<'v>) -> bool {
        name == "data" || MEMBER.iter().any(|(field, _)| *field == name)
    }

    fn dir_attr(&self) -> Vec<String> {
        let mut names = names(MEMBER);
        names.push("data".to_owned());
        names
    }

    fn equals(&self, other: Value<'v>) -> starlark::Result<bool> {
        Ok(other.downcast_ref::<Self>().is_some_and(|other| other.place == self.place))
    }

    fn write_hash(&self, hasher: &mut StarlarkHasher) -> starlark::Result<()> {
        self.place.hash(hasher);
        Ok(())
    }
}

#[starlark_module]
fn member_methods(builder: &mut MethodsBuilder) {
    /// The value of the label, or None.
    fn label<'v>(
        this: &MemberValue,
        #[starlark(require = pos)] name: &str,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        Ok(member(this.place).map_or_else(Value::new_none, |member| look_up(&member.labels, name, heap)))
    }

    /// The value of the fact, or None.
    fn fact<'v>(
        this: &MemberValue,
        #[starlark(require = pos)] name: &str,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        Ok(member(this.place).map_or_else(Value::new_none, |member| look_up(&member.facts, name, heap)))
    }
}
starlark::methods_static!(MEMBER_METHODS = member_methods);
