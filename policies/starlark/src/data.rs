//! `m.data`: how recent a member's data is, in the order of the contract.
#![allow(clippy::panic, reason = "derived for values that are never written out; nothing here panics itself")]
#![allow(unsafe_code, reason = "derived: `ProvidesStaticType` names a type without its lifetimes")]

use std::{cmp::Ordering, fmt};

use allocative::Allocative;
use starlark::{
    starlark_simple_value,
    values::{
        Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Value, ValueError, ValueLike,
        starlark_value,
    },
};

use crate::{
    snapshot::member,
    world::exports::tanist::policy::types::{Member, Position},
};

/// The data of one member. Two of them are compared by `<`, `max` and `sorted`: known data by term, then by number inside one history; then unknown
/// data; then none. This is the order of the built-in policy.
#[derive(Debug, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub struct Data {
    /// The member's place in the snapshot's list.
    pub place: u32,
}
starlark_simple_value!(Data);

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Member { term, position, .. }) = member(self.place) else { return f.write_str("<data>") };
        match position {
            Position::Known(known) => write!(f, "data {}", known.number)?,
            Position::Empty => return f.write_str("no data"),
            Position::Unknown(_) | Position::NotAsked => return f.write_str("unknown data"),
        }
        term.map_or(Ok(()), |term| write!(f, " of term {term}"))
    }
}

#[starlark_value(type = "data")]
impl<'v> StarlarkValue<'v> for Data {
    fn get_attr(&self, name: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        let member = member(self.place)?;
        let known = if let Position::Known(known) = &member.position { Some(known) } else { None };
        let none = Value::new_none();
        Some(match name {
            "term" => member.term.map_or(none, |term| heap.alloc(term)),
            "number" => known.map_or(none, |known| heap.alloc(known.number)),
            "history" => known.and_then(|known| known.history.as_deref()).map_or(none, |history| heap.alloc(history)),
            _ => return None,
        })
    }

    fn has_attr(&self, name: &str, _: Heap<'v>) -> bool {
        ["term", "number", "history"].contains(&name)
    }

    fn dir_attr(&self) -> Vec<String> {
        ["term", "number", "history"].map(str::to_owned).to_vec()
    }

    fn equals(&self, other: Value<'v>) -> starlark::Result<bool> {
        let (Some(left), Some(right)) =
            (member(self.place), other.downcast_ref::<Self>().and_then(|other| member(other.place)))
        else {
            return Ok(false);
        };
        Ok(compare(left, right).is_ok_and(Ordering::is_eq))
    }

    fn compare(&self, other: Value<'v>) -> starlark::Result<Ordering> {
        let Some(right) = other.downcast_ref::<Self>().and_then(|other| member(other.place)) else {
            return ValueError::unsupported_with(self, "compare", other);
        };
        let Some(left) = member(self.place) else { return Ok(Ordering::Equal) };
        compare(left, right).map_err(|why| starlark::Error::new_other(anyhow::Error::msg(why)))
    }
}

/// The order of two members' data.
fn compare(left: &Member, right: &Member) -> Result<Ordering, String> {
    match (&left.position, &right.position) {
        (Position::Known(own), Position::Known(others)) => match left.term.cmp(&right.term) {
            Ordering::Equal if own.history != others.history => Err(format!(
                "the data of {} and {} is of two histories, and numbers of two histories cannot be compared",
                left.name, right.name
            )),
            Ordering::Equal => Ok(own.number.cmp(&others.number)),
            by_term => Ok(by_term),
        },
        (own, others) => Ok(class(own).cmp(&class(others))),
    }
}

/// Known data comes before unknown data, and that before none.
const fn class(position: &Position) -> u8 {
    match position {
        Position::Known(_) => 2,
        Position::Unknown(_) | Position::NotAsked => 1,
        Position::Empty => 0,
    }
}
