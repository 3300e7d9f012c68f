//! The functions that a script has beside those of the language: its answers, and those of the language that need a limit.
#![allow(clippy::panic, reason = "derived for values that are never written out; nothing here panics itself")]
#![allow(unsafe_code, reason = "derived: `ProvidesStaticType` names a type without its lifetimes")]

use std::{cell::Cell, collections::BTreeSet, fmt, num::NonZeroI32};

use allocative::Allocative;
use anyhow::{anyhow, bail};
use starlark::{
    environment::{Globals, GlobalsBuilder, LibraryExtension},
    starlark_module, starlark_simple_value,
    values::{
        Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, UnpackValue, Value, list::ListRef,
        range::Range, starlark_value, tuple::TupleRef,
    },
};

use crate::{
    budget,
    notes::cut,
    snapshot::{MemberValue, asked, member},
    world::exports::tanist::policy::recovery::Remedy,
};

/// Bytes of a reason, as the host allows them.
const REASON: usize = 256;
/// The reason of a candidate that was chosen without one.
const NO_REASON: &str = "the script gives no reason";

/// The name under which a script's `*` calls [`product`]'s function. No script can write it as a name.
pub const TIMES: &str = "*";

thread_local! {
    static POINT: Cell<&'static str> = const { Cell::new("") };
}

/// Says which point is asked.
pub fn asking(point: &'static str) {
    POINT.set(point);
}

/// One member with a reason.
#[derive(Debug, Clone, Allocative)]
pub struct Named {
    pub place: u32,
    pub reason: String,
    /// The member whose data it is brought up to first.
    pub source: Option<u32>,
    /// At `treat`: what is done with it.
    #[allocative(skip)]
    pub remedy: Option<Remedy>,
}

/// What a script returns: an answer, or a part of one.
#[derive(Debug, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub enum Answered {
    Choose {
        candidates: Vec<Named>,
        passed_over: Vec<Named>,
    },
    Wait {
        reason: String,
        until: Option<i64>,
    },
    Refuse {
        reason: String,
    },
    /// What is done with one member: a part of an answer to `treat`.
    Treatment(Named),
}
starlark_simple_value!(Answered);

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Choose { .. } => "choose(...)",
            Self::Wait { .. } => "wait(...)",
            Self::Refuse { .. } => "refuse(...)",
            Self::Treatment(_) => "a treatment",
        })
    }
}

#[starlark_value(type = "answer")]
impl<'v> StarlarkValue<'v> for Answered {}

/// Everything that a script can name.
pub fn globals() -> Globals {
    let extensions = [
        LibraryExtension::StructType,
        LibraryExtension::Map,
        LibraryExtension::Filter,
        LibraryExtension::Print,
        LibraryExtension::Json,
        LibraryExtension::SetType,
        LibraryExtension::Typing,
    ];
    let mut builder = GlobalsBuilder::extended_by(&extensions);
    answers(&mut builder);
    limited(&mut builder);
    let product = GlobalsBuilder::new().with(product).build();
    if let Some((_, times)) = product.iter().next() {
        builder.set(TIMES, times);
    }
    // Its heap has the function, and lives as long as the instance.
    std::mem::forget(product);
    builder.build()
}

#[starlark_module]
fn answers(builder: &mut GlobalsBuilder) {
    /// Choose these members, best first: members, or pairs of member and reason, or three with the member whose data is copied first.
    fn choose<'v>(
        #[starlark(require = pos)] members: Value<'v>,
        #[starlark(default = NO_REASON)] reason: &str,
        passed_over: Option<Value<'v>>,
    ) -> anyhow::Result<Answered> {
        fits(reason)?;
        let candidates = named("choose", members, reason)?;
        let passed_over =
            passed_over.map(|list| named("choose: passed_over", list, NO_REASON)).transpose()?.unwrap_or_default();
        if candidates.is_empty() && POINT.get() != "treat" {
            bail!("choose: the list is empty; return nothing to leave the answer to the next policy");
        }
        no_member_twice(candidates.iter().chain(&passed_over))?;
        for each in &candidates {
            may_be_chosen(each)?;
        }
        Ok(Answered::Choose { candidates, passed_over })
    }

    /// Nothing is done for now.
    fn wait<'v>(#[starlark(require = pos)] reason: &str, until: Option<Value<'v>>) -> anyhow::Result<Answered> {
        fits(reason)?;
        let until = until.filter(|until| !until.is_none()).map(time).transpose()?;
        Ok(Answered::Wait { reason: reason.to_owned(), until })
    }

    /// Nothing is done until an administrator changes something.
    fn refuse(#[starlark(require = pos)] reason: &str) -> anyhow::Result<Answered> {
        fits(reason)?;
        Ok(Answered::Refuse { reason: reason.to_owned() })
    }

    /// At `treat`: run the member's `stop` command.
    fn stop<'v>(
        #[starlark(require = pos)] member: Value<'v>,
        #[starlark(default = NO_REASON)] reason: &str,
    ) -> anyhow::Result<Answered> {
        treatment("stop", member, reason, Remedy::Stop)
    }

    /// At `treat`: delete the member's pod, keep its volumes.
    fn recreate<'v>(
        #[starlark(require = pos)] member: Value<'v>,
        #[starlark(default = NO_REASON)] reason: &str,
    ) -> anyhow::Result<Answered> {
        treatment("recreate", member, reason, Remedy::Recreate)
    }

    /// At `treat`: mark the member for removal.
    fn replace<'v>(
        #[starlark(require = pos)] member: Value<'v>,
        #[starlark(default = NO_REASON)] reason: &str,
    ) -> anyhow::Result<Answered> {
        treatment("replace", member, reason, Remedy::Replace)
    }

    /// At `treat`: leave the member as it is, and say why.
    fn leave<'v>(
        #[starlark(require = pos)] member: Value<'v>,
        #[starlark(default = NO_REASON)] reason: &str,
    ) -> anyhow::Result<Answered> {
        treatment("leave", member, reason, Remedy::Leave)
    }
}

/// The functions of the language that could make a value of any size in one step.
#[starlark_module]
fn limited(builder: &mut GlobalsBuilder) {
    /// As in the language, with a limit.
    fn range(
        #[starlark(require = pos)] a1: i32,
        #[starlark(require = pos)] a2: Option<i32>,
        #[starlark(require = pos, default = 1)] step: i32,
    ) -> anyhow::Result<Range> {
        let (start, stop) = a2.map_or((0, a1), |stop| (a1, stop));
        let step = NonZeroI32::new(step).ok_or_else(|| anyhow::Error::msg("range: the step is 0"))?;
        let distance =
            if step.get() > 0 { i64::from(stop) - i64::from(start) } else { i64::from(start) - i64::from(stop) };
        within("range", distance / i64::from(step.get()).abs(), "elements")?;
        Ok(Range::new(start, stop, step))
    }
}

#[starlark_module]
fn product(builder: &mut GlobalsBuilder) {
    /// `left * right`: see [`TIMES`].
    fn times<'v>(
        #[starlark(require = pos)] left: Value<'v>,
        #[starlark(require = pos)] right: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let of = |value: Value<'v>, times: Value<'v>| {
            let length = value.unpack_str().map(str::len).or_else(|| ListRef::from_value(value).map(|list| list.len()));
            let length = length.or_else(|| TupleRef::from_value(value).map(|tuple| tuple.len()));
            Some(i64::try_from(length?).ok()?.saturating_mul(i64::from(times.unpack_i32()?)))
        };
        if let Some(length) = of(left, right).or_else(|| of(right, left)) {
            within("*", length, "elements").map_err(starlark::Error::new_native)?;
        }
        left.mul(right, heap)
    }
}

fn within(what: &str, length: i64, unit: &str) -> anyhow::Result<()> {
    if length > budget::LENGTH {
        bail!("{what}: the result has {length} {unit}, {} are allowed", budget::LENGTH);
    }
    Ok(())
}

/// A reason that the host accepts.
fn fits(reason: &str) -> anyhow::Result<()> {
    if reason.len() > REASON {
        bail!("the reason has {} bytes, {REASON} are allowed", reason.len());
    }
    Ok(())
}

/// Seconds since 1970.
fn time(value: Value<'_>) -> anyhow::Result<i64> {
    let Ok(Some(until)) = i64::unpack_value(value) else {
        bail!(
            "wait: until is {}, expected seconds since 1970 as an integer of 64 bits, for instance s.now + 30",
            shown(value)
        );
    };
    match asked() {
        Some(asked) if until <= asked.now => {
            bail!("wait: until is {until}, expected a time after now, which is {}", asked.now)
        }
        _ => Ok(until),
    }
}

/// The members of a list, or one alone.
fn named(what: &str, value: Value<'_>, reason: &str) -> anyhow::Result<Vec<Named>> {
    if let Some(list) = ListRef::from_value(value) {
        return list.iter().map(|each| candidate(what, each, reason)).collect();
    }
    // A tuple of members is a list, too, but (member, reason) is one.
    match TupleRef::from_value(value).map(TupleRef::content) {
        Some([first, second, ..]) if MemberValue::from_value(*first).is_some() && second.unpack_str().is_none() => {
            bail!("{what}: expected a list of members, found a tuple; write [...]")
        }
        _ => Ok(vec![candidate(what, value, reason)?]),
    }
}

/// One candidate: a member, or (member, reason), or (member, reason, source), or a treatment.
fn candidate(what: &str, value: Value<'_>, reason: &str) -> anyhow::Result<Named> {
    if let Some(Answered::Treatment(named)) = Answered::from_value(value) {
        return Ok(named.clone());
    }
    let (member, reason, source) = match TupleRef::from_value(value).map(TupleRef::content) {
        None => (value, reason, None),
        Some([member, reason]) => (*member, text(what, *reason)?, None),
        Some([member, reason, source]) => (*member, text(what, *reason)?, Some(place(what, *source)?)),
        Some(other) => bail!("{what}: expected (member, reason), found a tuple of {}", other.len()),
    };
    fits(reason)?;
    Ok(Named { place: place(what, member)?, reason: reason.to_owned(), source, remedy: None })
}

fn text<'v>(what: &str, value: Value<'v>) -> anyhow::Result<&'v str> {
    value.unpack_str().ok_or_else(|| anyhow!("{what}: a reason is a text, found {}", shown(value)))
}

/// The place of a member in the snapshot.
fn place(what: &str, value: Value<'_>) -> anyhow::Result<u32> {
    if let Some(member) = MemberValue::from_value(value) {
        return Ok(member.place);
    }
    let Some(name) = value.unpack_str() else { bail!("{what}: expected a member, found {}", shown(value)) };
    let members = asked().map_or(&[][..], |asked| &asked.members);
    let found = (0_u32..).zip(members).find(|(_, member)| member.name == name);
    found.map(|(place, _)| place).ok_or_else(|| anyhow!("{what}: the group has no member `{}`", cut(name, 64)))
}

fn name(place: u32) -> &'static str {
    member(place).map_or("?", |member| &member.name)
}

fn no_member_twice<'a>(all: impl Iterator<Item = &'a Named>) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    for each in all {
        if !seen.insert(each.place) {
            bail!("choose: the member `{}` is there twice", name(each.place));
        }
    }
    Ok(())
}

/// The host checks this, too. Here it has a place.
fn may_be_chosen(named: &Named) -> anyhow::Result<()> {
    match (POINT.get(), named.remedy) {
        ("treat", None) => {
            bail!(
                "choose: at treat say what is done with `{}`: stop(m, why), recreate(m, why), replace(m, why) or leave(m, why)",
                name(named.place)
            )
        }
        ("treat", Some(_)) => Ok(()),
        (point, Some(_)) => {
            bail!("choose: a treatment of `{}` is no answer to {point}; choose the member", name(named.place))
        }
        (_, None) => match member(named.place).and_then(|member| member.barred.as_ref()) {
            Some(why) => bail!(
                "choose: the member `{}` may not be chosen now: {why}; s.eligible() has those that may",
                name(named.place)
            ),
            None => Ok(()),
        },
    }
}

fn treatment(what: &str, member: Value<'_>, reason: &str, remedy: Remedy) -> anyhow::Result<Answered> {
    fits(reason)?;
    Ok(Answered::Treatment(Named {
        place: place(what, member)?,
        reason: reason.to_owned(),
        source: None,
        remedy: Some(remedy),
    }))
}

/// A value in an error: short, and with its type.
fn shown(value: Value<'_>) -> String {
    let article = if value.get_type().starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    if value.is_none() {
        "None".to_owned()
    } else {
        format!("{article} {} ({})", value.get_type(), cut(&value.to_repr(), 40))
    }
}
