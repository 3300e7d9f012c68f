//! The members of a case: a number of them, their names, or each with what is known of it.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Map, Value};
use serde_saphyr::{Location, Spanned};
use tanist_core::{
    contract::{Outcome, Phase, Position, Role, Timestamp},
    data::read_sequence,
};

/// The most members of a group.
const MOST: usize = 1_000;

/// The members of a case.
#[derive(Debug, Clone, PartialEq)]
pub enum Members {
    /// So many, all alike.
    Count(u32),
    /// Those of these names, all alike.
    Names(Vec<Spanned<String>>),
    /// Each member by its name, with its own settings.
    Each(Vec<(Spanned<String>, MemberCase)>),
}

impl Default for Members {
    fn default() -> Self {
        Self::Count(3)
    }
}

/// A member of a case; what is absent has a usual value.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MemberCase {
    /// How recent its data is, as its `sequence` command prints it. Absent: 1, in a group that was never seeded `EMPTY`.
    #[serde(default)]
    pub data: Option<Data>,
    /// The term of its data. Absent: the group's.
    #[serde(default)]
    pub term: Option<u64>,
    /// Its role. Absent: what the question needs.
    #[serde(default)]
    pub role: Option<Role>,
    /// Why its role is `unknown` or `failed`. Absent: a usual reason.
    #[serde(default)]
    pub detail: Option<String>,
    /// Whether commands reach it. `false` is the phase `unreachable`.
    #[serde(default)]
    pub reachable: Option<bool>,
    /// The phase of its pod. Absent: `running`.
    #[serde(default)]
    pub phase: Option<PhaseWord>,
    /// Which template its pod has. Absent: at `update` the older one; at `judge` the last member has the present one, and the others the older one;
    /// otherwise the present one.
    #[serde(default)]
    pub template: Option<TemplateWord>,
    /// Whether its pod is Ready. Absent: as a member in its role is.
    #[serde(default)]
    pub ready: Option<bool>,
    /// Since when it is in its phase and role; 0 and less: so many seconds before `now`. Absent: 60 seconds.
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// Since when it is in its role, where that is another time; 0 and less as above.
    #[serde(default)]
    pub role_since: Option<Timestamp>,
    /// When it was last primary; 0 and less as above. With it the member led the group's term.
    #[serde(default)]
    pub last_primary: Option<Timestamp>,
    /// The node that it runs on. Absent: one of its own.
    #[serde(default)]
    pub node: Option<String>,
    /// The zone of its node.
    #[serde(default)]
    pub zone: Option<String>,
    /// Whether its node is to be drained.
    #[serde(default)]
    pub cordoned: bool,
    /// Commands that failed on it in a row.
    #[serde(default)]
    pub failures: u32,
    /// The latest of them. Absent: `primary` exited with 1, a minute ago.
    #[serde(default)]
    pub last_failure: Option<FailureCase>,
    /// Its labels for policies.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// When `status` last gave a role, if it gives none now; 0 and less as above. Absent: not known.
    #[serde(default)]
    pub last_contact: Option<Timestamp>,
    /// What holds for it beside phase and role, by the words of docs/conditions.md.
    #[serde(default)]
    pub conditions: BTreeMap<String, ConditionCase>,
    /// Facts about it, beside those that the host makes of the case (docs/facts.md), and in place of them.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
    /// What the operator remembers of it beyond that, in the words of `status.record.members`; it goes before the keys above. Recorded cases have it where
    /// it bars a member.
    #[serde(default)]
    pub memory: Option<Spanned<Map<String, Value>>>,
}

/// Which template a pod has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TemplateWord {
    /// That of the group.
    Present,
    /// One before it.
    Older,
}

/// Something that holds for a member.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ConditionCase {
    /// Since when; 0 and less: so many seconds before `now`. Absent: 60 seconds.
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// Details, as docs/conditions.md says for the word.
    #[serde(default)]
    pub detail: Option<String>,
}

/// A command that failed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FailureCase {
    /// The name of the command.
    pub command: String,
    /// How it ended: `{exited: CODE}`, `not-started` or `unknown`.
    pub outcome: Outcome,
    /// When; 0 and less: so many seconds before `now`.
    pub at: Timestamp,
}

/// What is known of the data of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data(pub Position);

/// The phase of a pod, by the contract's word.
pub type PhaseWord = Phase;

impl Members {
    /// So many members of which that one failed.
    #[must_use]
    pub fn with_failed(count: u32, failed: u32) -> Self {
        let role = |ordinal: u32| (ordinal == failed).then_some(Role::Failed);
        let member = |ordinal: u32| {
            let name = Spanned::new(format!("db-{ordinal}"), Location::UNKNOWN, Location::UNKNOWN);
            (name, MemberCase { role: role(ordinal), ..MemberCase::default() })
        };
        Self::Each((0..count).map(member).collect())
    }

    /// Their names in the order of the file. `group`: the name of the group, if the case gives one.
    #[must_use]
    pub fn names(&self, group: Option<&str>) -> Vec<String> {
        match self {
            Self::Count(count) => (0..*count).map(|ordinal| format!("{}-{ordinal}", group.unwrap_or("db"))).collect(),
            Self::Names(names) => names.iter().map(|name| name.value.clone()).collect(),
            Self::Each(each) => each.iter().map(|(name, _)| name.value.clone()).collect(),
        }
    }

    /// What the case says about a member, by its place in [`Members::names`].
    #[must_use]
    pub fn case(&self, index: usize) -> MemberCase {
        match self {
            Self::Each(each) => each.get(index).map(|(_, case)| case.clone()).unwrap_or_default(),
            Self::Count(_) | Self::Names(_) => MemberCase::default(),
        }
    }

    /// Whether their number and names can be those of a group.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn look(&self, group: Option<&str>) -> Result<(), (Option<Location>, String)> {
        let places: Vec<_> = match self {
            Self::Count(_) => Vec::new(),
            Self::Names(names) => names.iter().collect(),
            Self::Each(each) => each.iter().map(|(name, _)| name).collect(),
        };
        let count = self.names(group).len();
        if count == 0 || count > MOST {
            return Err((None, format!("it has {count} members; a group has 1 to {MOST}")));
        }
        let mut seen = BTreeMap::new();
        let mut first = group.map(str::to_owned);
        for place in places {
            let wrong = |message: String| Err((Some(place.referenced), message));
            let Some((prefix, ordinal)) = split(&place.value) else {
                return wrong(format!(
                    "{} is no name of a member; a name is GROUP-NUMBER, for instance db-0",
                    place.value
                ));
            };
            let group = first.get_or_insert_with(|| prefix.to_owned());
            if group != prefix {
                return wrong(format!(
                    "{} is not a member of the group {group}: members are called {group}-NUMBER",
                    place.value
                ));
            }
            if seen.insert(ordinal, ()).is_some() {
                return wrong(format!("{} is listed twice", place.value));
            }
        }
        if let Self::Each(each) = self {
            for (name, case) in each {
                if case.reachable == Some(false) && case.phase.is_some() {
                    let message = format!("{}: give reachable or phase, not both", name.value);
                    return Err((Some(name.referenced), message));
                }
            }
        }
        Ok(())
    }
}

/// The group's name and the number in the name of a member.
#[must_use]
pub fn split(name: &str) -> Option<(&str, u32)> {
    let (group, digits) = name.rsplit_once('-')?;
    let number: u32 = digits.parse().ok()?;
    (!group.is_empty() && number.to_string() == digits).then_some((group, number))
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of members, a list of their names, or a mapping of names")
    }

    fn visit_u64<E: serde::de::Error>(self, count: u64) -> Result<Members, E> {
        u32::try_from(count).map(Members::Count).map_err(|_| E::custom("that many members are not possible"))
    }

    fn visit_i64<E: serde::de::Error>(self, count: i64) -> Result<Members, E> {
        u32::try_from(count).map(Members::Count).map_err(|_| E::custom("that many members are not possible"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Members, A::Error> {
        let mut all = Vec::new();
        while let Some(name) = names.next_element()? {
            all.push(name);
        }
        Ok(Members::Names(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Members, A::Error> {
        let mut all = Vec::new();
        while let Some(name) = members.next_key::<String>()? {
            let Spanned { value: Short(case), referenced, defined } = members.next_value::<Spanned<Short>>()?;
            all.push((Spanned::new(name, referenced, defined), case));
        }
        Ok(Members::Each(all))
    }
}

/// A member, or its data alone.
struct Short(MemberCase);

impl<'de> Deserialize<'de> for Short {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShortVisitor)
    }
}

struct ShortVisitor;

impl<'de> Visitor<'de> for ShortVisitor {
    type Value = Short;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member, or its data: [HISTORY:]NUMBER or EMPTY")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Short, E> {
        Ok(Short(MemberCase::default()))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Short, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_str<E: serde::de::Error>(self, data: &str) -> Result<Short, E> {
        let data = Some(read(data).map_err(E::custom)?);
        Ok(Short(MemberCase { data, ..MemberCase::default() }))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Short, A::Error> {
        MemberCase::deserialize(MapAccessDeserializer::new(map)).map(Short)
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word;

        impl Visitor<'_> for Word {
            type Value = Data;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("[HISTORY:]NUMBER, EMPTY, unknown or not-asked")
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Data, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Data, E> {
                read(text).map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Word).map_err(D::Error::custom)
    }
}

/// As the `sequence` command prints it, and two words for what it cannot print.
fn read(text: &str) -> Result<Data, String> {
    match text {
        "unknown" => Ok(Data(Position::Unknown("its sequence cannot be read".to_owned()))),
        "not-asked" => Ok(Data(Position::NotAsked)),
        _ => read_sequence(text.as_bytes())
            .map(Data)
            .map_err(|_| format!("{text} is no data: write [HISTORY:]NUMBER, EMPTY, unknown or not-asked")),
    }
}
