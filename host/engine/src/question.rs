//! A snapshot in the form that the bindings copy into a policy.
//!
//! Every text and list is borrowed: nothing is copied before wasmtime writes it into the policy's memory. The bindings want each list of records as one
//! slice, so the records are laid out first, one list after the other ([`Lists`]), and then cut into slices.

use tanist_core::contract;

use crate::bindings::exports::tanist::policy::types as wit;

/// The size of a snapshot, which the budget depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Size {
    pub(crate) members: u64,
    pub(crate) bytes: u64,
}

/// The records of all members and of the group, in the order in which [`Asked::new`] takes them.
#[derive(Debug)]
pub(crate) struct Lists<'a> {
    pairs: Vec<(&'a str, &'a str)>,
    conditions: Vec<wit::Condition<'a>>,
    size: Size,
}

impl<'a> Lists<'a> {
    pub(crate) fn of(snapshot: &'a contract::Snapshot) -> Self {
        let contract::Snapshot { group, members, .. } = snapshot;
        let mut size = Size { members: members.len() as u64, bytes: 0 };
        let mut pairs = Vec::new();
        let mut conditions = Vec::new();
        for (key, value) in group.labels.iter().chain(&group.facts) {
            pairs.push((size.text(key), size.text(value)));
        }
        for member in members {
            for (key, value) in member.labels.iter().chain(&member.facts) {
                pairs.push((size.text(key), size.text(value)));
            }
            conditions.extend(member.conditions.iter().map(|each| condition(each, &mut size)));
        }
        Self { pairs, conditions, size }
    }
}

/// A snapshot without the parameters, because each policy has its own.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    now: i64,
    group: wit::Group<'a>,
    members: Vec<wit::Member<'a>>,
    history: Vec<wit::Transition<'a>>,
    size: Size,
}

impl<'a> Asked<'a> {
    /// `lists` are those of the same snapshot.
    pub(crate) fn new(snapshot: &'a contract::Snapshot, lists: &'a Lists<'_>) -> Self {
        let contract::Snapshot { now, group: of, members, history, parameters: _ } = snapshot;
        let mut take = Taking { pairs: &lists.pairs, conditions: &lists.conditions, size: lists.size };
        let group = group(of, &mut take);
        let members = members.iter().map(|each| member(each, &mut take)).collect();
        let history = history.iter().map(|each| transition(each, &mut take.size)).collect();
        Self { now: *now, group, members, history, size: take.size }
    }

    /// The snapshot for one policy.
    pub(crate) fn with<'b>(&'b self, parameters: &'b str) -> wit::Snapshot<'b> {
        let Self { now, group, members, history, size: _ } = self;
        wit::Snapshot { now: *now, group: group.clone(), members, history, parameters }
    }

    pub(crate) fn size(&self) -> Size {
        self.size
    }
}

impl Size {
    fn text<'a>(&mut self, text: &'a str) -> &'a str {
        self.bytes = self.bytes.saturating_add(text.len() as u64);
        text
    }

    /// The bindings want names as references to the owned type.
    fn name<'a>(&mut self, name: &'a contract::MemberName) -> &'a wit::MemberName {
        self.text(name.as_str());
        &name.0
    }

    fn option<'a>(&mut self, text: Option<&'a String>) -> Option<&'a str> {
        text.map(|text| self.text(text))
    }
}

/// What is left of the lists.
struct Taking<'a> {
    pairs: &'a [(&'a str, &'a str)],
    conditions: &'a [wit::Condition<'a>],
    size: Size,
}

impl<'a> Taking<'a> {
    fn pairs(&mut self, of: &[(String, String)]) -> &'a [(&'a str, &'a str)] {
        next(&mut self.pairs, of.len())
    }

    fn conditions(&mut self, of: &[contract::Condition]) -> &'a [wit::Condition<'a>] {
        next(&mut self.conditions, of.len())
    }
}

/// The first so many records; the rest is left. There are always so many.
fn next<'a, T>(left: &mut &'a [T], count: usize) -> &'a [T] {
    let (first, rest) = left.split_at_checked(count).unwrap_or((left, &[]));
    *left = rest;
    first
}

fn group<'a>(group: &'a contract::Group, take: &mut Taking<'a>) -> wit::Group<'a> {
    let contract::Group {
        name,
        namespace,
        replicas,
        primaries,
        has_secondaries,
        term,
        preferred_primary,
        high_water,
        labels,
        facts,
    } = group;
    wit::Group {
        name: take.size.text(name),
        namespace: take.size.text(namespace),
        replicas: *replicas,
        primaries: *primaries,
        has_secondaries: *has_secondaries,
        term: *term,
        preferred_primary: preferred_primary.as_ref().map(|name| take.size.name(name)),
        high_water: high_water.as_ref().map(|each| sequence(each, &mut take.size)),
        labels: take.pairs(labels),
        facts: take.pairs(facts),
    }
}

fn member<'a>(member: &'a contract::Member, take: &mut Taking<'a>) -> wit::Member<'a> {
    let contract::Member {
        name,
        ordinal,
        phase,
        phase_since,
        ready,
        role,
        role_since,
        role_detail,
        last_primary,
        term,
        position: at,
        node,
        zone,
        failures,
        last_failure,
        marked,
        conditions,
        labels,
        facts,
        barred,
    } = member;
    wit::Member {
        name: take.size.name(name),
        ordinal: *ordinal,
        phase: match phase {
            contract::Phase::Missing => wit::Phase::Missing,
            contract::Phase::Pending => wit::Phase::Pending,
            contract::Phase::Running => wit::Phase::Running,
            contract::Phase::Terminating => wit::Phase::Terminating,
            contract::Phase::Ended => wit::Phase::Ended,
            contract::Phase::Unreachable => wit::Phase::Unreachable,
        },
        phase_since: *phase_since,
        ready: *ready,
        role: match role {
            contract::Role::Unknown => wit::Role::Unknown,
            contract::Role::Stopped => wit::Role::Stopped,
            contract::Role::Starting => wit::Role::Starting,
            contract::Role::Secondary => wit::Role::Secondary,
            contract::Role::Primary => wit::Role::Primary,
            contract::Role::Failed => wit::Role::Failed,
        },
        role_since: *role_since,
        role_detail: take.size.option(role_detail.as_ref()),
        last_primary: *last_primary,
        term: *term,
        position: position(at, &mut take.size),
        node: take.size.option(node.as_ref()),
        zone: take.size.option(zone.as_ref()),
        failures: *failures,
        last_failure: last_failure.as_ref().map(|each| failure(each, &mut take.size)),
        marked: *marked,
        conditions: take.conditions(conditions),
        labels: take.pairs(labels),
        facts: take.pairs(facts),
        barred: take.size.option(barred.as_ref()),
    }
}

fn position<'a>(position: &'a contract::Position, size: &mut Size) -> wit::Position<'a> {
    match position {
        contract::Position::Known(known) => wit::Position::Known(sequence(known, size)),
        contract::Position::Empty => wit::Position::Empty,
        contract::Position::Unknown(why) => wit::Position::Unknown(size.text(why)),
        contract::Position::NotAsked => wit::Position::NotAsked,
    }
}

fn sequence<'a>(sequence: &'a contract::Sequence, size: &mut Size) -> wit::Sequence<'a> {
    let contract::Sequence { history, number } = sequence;
    wit::Sequence { history: size.option(history.as_ref()), number: *number }
}

fn condition<'a>(condition: &'a contract::Condition, size: &mut Size) -> wit::Condition<'a> {
    let contract::Condition { name, since, detail } = condition;
    wit::Condition { name: size.text(name), since: *since, detail: size.option(detail.as_ref()) }
}

fn failure<'a>(failure: &'a contract::Failure, size: &mut Size) -> wit::Failure<'a> {
    let contract::Failure { command, outcome, at } = failure;
    let outcome = match outcome {
        contract::Outcome::Exited(code) => wit::Outcome::Exited(*code),
        contract::Outcome::NotStarted => wit::Outcome::NotStarted,
        contract::Outcome::Unknown => wit::Outcome::Unknown,
    };
    wit::Failure { command: size.text(command), outcome, at: *at }
}

fn transition<'a>(transition: &'a contract::Transition, size: &mut Size) -> wit::Transition<'a> {
    let contract::Transition { at, what, member, detail } = transition;
    wit::Transition {
        at: *at,
        what: size.text(what),
        member: member.as_ref().map(|name| size.name(name)),
        detail: size.option(detail.as_ref()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tanist_core::examples;

    fn pairs(of: &[&str]) -> Vec<(String, String)> {
        of.iter().map(|word| (format!("{word}-key"), format!("{word}-value"))).collect()
    }

    fn member(name: &str, labels: &[&str], facts: &[&str], conditions: &[&str]) -> contract::Member {
        let condition = |name: &&str| contract::Condition { name: (*name).to_owned(), since: 0, detail: None };
        contract::Member {
            name: name.into(),
            position: contract::Position::Empty,
            conditions: conditions.iter().map(condition).collect(),
            labels: pairs(labels),
            facts: pairs(facts),
            ..examples::member(0, 0)
        }
    }

    fn story() -> contract::Snapshot {
        let members = vec![
            member("m0", &["d", "e"], &[], &["x"]),
            member("m1", &[], &["f"], &[]),
            member("m2", &["g"], &["h"], &["y", "z"]),
        ];
        let mut story = examples::snapshot(members);
        (story.group.name, story.group.namespace) = ("g".to_owned(), "n".to_owned());
        (story.group.labels, story.group.facts) = (pairs(&["a"]), pairs(&["b", "c"]));
        story
    }

    #[test]
    fn group_and_members_get_their_own_lists() {
        let story = story();
        let lists = Lists::of(&story);
        let asked = Asked::new(&story, &lists);
        let snapshot = asked.with("{}");
        let words = |pairs: &[(&str, &str)]| pairs.iter().map(|(key, _)| key[..1].to_owned()).collect::<String>();
        let conditions =
            |of: &[wit::Condition<'_>]| of.iter().map(|condition| condition.name.to_owned()).collect::<String>();
        assert_eq!((words(snapshot.group.labels), words(snapshot.group.facts)), ("a".to_owned(), "bc".to_owned()));
        let of_members: Vec<_> = snapshot
            .members
            .iter()
            .map(|member| format!("{}/{}/{}", words(member.labels), words(member.facts), conditions(member.conditions)))
            .collect();
        assert_eq!(of_members, ["de//x", "/f/", "g/h/yz"]);
        assert_eq!(snapshot.parameters, "{}");
    }

    #[test]
    fn the_size_counts_every_text_once() {
        let story = story();
        let lists = Lists::of(&story);
        // Eight pairs of 5 and 7 bytes, three conditions of 1, three names of 2, group and namespace.
        let bytes = 8 * 12 + 3 + 3 * 2 + 2;
        assert_eq!(Asked::new(&story, &lists).size(), Size { members: 3, bytes });
    }
}
