//! The answer that a case expects.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use tanist_core::{
    contract::{Remedy, Timestamp},
    policy::Point,
};

/// The answer that a case expects. A `reason` is expected to be contained in the answer's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// `choose: db-1`: this member is chosen, whoever follows.
    First {
        /// The name of the member that has to be the first choice.
        member: String,
        /// A part of its reason.
        reason: Option<String>,
    },
    /// `choose: [db-1, db-0]`: exactly this ranking.
    Ranking {
        /// The members, best first.
        members: Vec<String>,
        /// A part of the reason of the first.
        reason: Option<String>,
    },
    /// `treat: {db-1: stop}`: exactly these remedies, in this order.
    Treat {
        /// Members and remedies.
        remedies: Vec<(String, Remedy)>,
        /// A part of the reason of the first.
        reason: Option<String>,
    },
    /// `wait`: the policy waits and does nothing for now.
    Wait {
        /// A part of the reason.
        reason: Option<String>,
        /// Until when. Absent: whenever.
        until: Option<Timestamp>,
    },
    /// `refuse`: nothing is done until an administrator changes something.
    Refuse {
        /// A part of the reason.
        reason: Option<String>,
    },
    /// `abstain`: no policy has an opinion.
    Abstain,
    /// `fail`: the policy fails, or the host drops its answer.
    Fail {
        /// A part of the message.
        reason: Option<String>,
    },
    /// `nobody`: the host bars every member, so that no policy is asked.
    Nobody,
}

/// The words of an expectation as YAML.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Words {
    #[serde(default)]
    choose: Option<Chosen>,
    #[serde(default)]
    treat: Option<Remedies>,
    #[serde(default)]
    wait: Option<String>,
    #[serde(default)]
    refuse: Option<String>,
    #[serde(default)]
    fail: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    until: Option<Timestamp>,
}

/// One member or a list of them.
enum Chosen {
    One(String),
    All(Vec<String>),
}

/// In the order of the file.
struct Remedies(Vec<(String, Remedy)>);

impl Expect {
    /// The members that it names.
    pub fn members(&self) -> impl Iterator<Item = &str> {
        let (some, treated) = match self {
            Self::First { member, .. } => (std::slice::from_ref(member), &[][..]),
            Self::Ranking { members, .. } => (members.as_slice(), &[][..]),
            Self::Treat { remedies, .. } => (&[][..], remedies.as_slice()),
            _ => (&[][..], &[][..]),
        };
        some.iter().map(String::as_str).chain(treated.iter().map(|(member, _)| member.as_str()))
    }

    /// Whether a question can have such an answer.
    ///
    /// # Errors
    /// Why this expectation does not fit the decision point.
    pub fn fits(&self, point: Point) -> Result<(), String> {
        match (self, point) {
            (Self::First { .. } | Self::Ranking { .. }, Point::Treat) => {
                Err("the answer to treat is `treat: {MEMBER: REMEDY}`, not `choose`".to_owned())
            }
            (Self::Treat { .. }, point) if point != Point::Treat => {
                Err(format!("the answer to {point} is `choose`, not `treat`"))
            }
            _ => Ok(()),
        }
    }

    /// As YAML on one line, for the place behind `expect: `.
    #[must_use]
    pub fn yaml(&self) -> String {
        match self.lines().as_slice() {
            [only] if !only.contains(": ") => only.clone(),
            lines => format!("{{{}}}", lines.join(", ")),
        }
    }

    /// Its parts, each as a line of YAML.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let reason = |reason: &Option<String>| reason.as_ref().map(|text| format!("reason: {}", quoted(text)));
        let word = |word: &str, text: &Option<String>| match text {
            Some(text) => format!("{word}: {}", quoted(text)),
            None => word.to_owned(),
        };
        match self {
            Self::First { member, reason: why } => {
                std::iter::once(format!("choose: {member}")).chain(reason(why)).collect()
            }
            Self::Ranking { members, reason: why } => {
                std::iter::once(format!("choose: [{}]", members.join(", "))).chain(reason(why)).collect()
            }
            Self::Treat { remedies, reason: why } => {
                let all: Vec<_> =
                    remedies.iter().map(|(member, remedy)| format!("{member}: {}", remedy_word(*remedy))).collect();
                std::iter::once(format!("treat: {{{}}}", all.join(", "))).chain(reason(why)).collect()
            }
            Self::Wait { reason, until: None } => vec![word("wait", reason)],
            Self::Wait { reason, until: Some(until) } => {
                vec![format!("wait: {}", quoted(reason.as_deref().unwrap_or_default())), format!("until: {until}")]
            }
            Self::Refuse { reason } => vec![word("refuse", reason)],
            Self::Fail { reason } => vec![word("fail", reason)],
            Self::Abstain => vec!["abstain".to_owned()],
            Self::Nobody => vec!["nobody".to_owned()],
        }
    }
}

/// The word of the contract.
#[must_use]
pub fn remedy_word(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::Leave => "leave",
        Remedy::Stop => "stop",
        Remedy::Recreate => "recreate",
        Remedy::Replace => "replace",
    }
}

/// Texts of JSON are texts of YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl Words {
    fn meant(self) -> Result<Expect, &'static str> {
        let Self { choose, treat, wait, refuse, fail, reason, until } = self;
        let text = |text: String| (!text.is_empty()).then_some(text);
        if until.is_some() && wait.is_none() {
            return Err("`until` stands beside `wait`");
        }
        if reason.is_some() && choose.is_none() && treat.is_none() {
            return Err(
                "`reason` stands beside `choose` or `treat`; write `wait: TEXT`, `refuse: TEXT` or `fail: TEXT`",
            );
        }
        match (choose, treat, wait, refuse, fail) {
            (Some(Chosen::One(member)), None, None, None, None) => Ok(Expect::First { member, reason }),
            (Some(Chosen::All(members)), None, None, None, None) => Ok(Expect::Ranking { members, reason }),
            (None, Some(Remedies(remedies)), None, None, None) => Ok(Expect::Treat { remedies, reason }),
            (None, None, Some(why), None, None) => Ok(Expect::Wait { reason: text(why), until }),
            (None, None, None, Some(why), None) => Ok(Expect::Refuse { reason: text(why) }),
            (None, None, None, None, Some(why)) => Ok(Expect::Fail { reason: text(why) }),
            _ => Err("expect exactly one of choose, treat, wait, refuse, abstain, fail and nobody"),
        }
    }
}

impl<'de> Deserialize<'de> for Expect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Expect;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "abstain, wait, refuse, fail, nobody, or a mapping with choose, treat, wait, refuse or fail",
                )
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<Expect, E> {
                match word {
                    "abstain" => Ok(Expect::Abstain),
                    "nobody" => Ok(Expect::Nobody),
                    "wait" => Ok(Expect::Wait { reason: None, until: None }),
                    "refuse" => Ok(Expect::Refuse { reason: None }),
                    "fail" => Ok(Expect::Fail { reason: None }),
                    _ => Err(E::custom(format!(
                        "{word} is no answer; expect abstain, wait, refuse, fail, nobody or choose: MEMBER"
                    ))),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Expect, A::Error> {
                let words = Words::deserialize(MapAccessDeserializer::new(map))?;
                words.meant().map_err(serde::de::Error::custom)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl<'de> Deserialize<'de> for Chosen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Chosen;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member, or a list of members")
            }

            fn visit_str<E: serde::de::Error>(self, member: &str) -> Result<Chosen, E> {
                Ok(Chosen::One(member.to_owned()))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Chosen, A::Error> {
                let mut all = Vec::new();
                while let Some(member) = list.next_element()? {
                    all.push(member);
                }
                Ok(Chosen::All(all))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl<'de> Deserialize<'de> for Remedies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Remedies;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("members with leave, stop, recreate or replace")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Remedies, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(Remedies(all))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}
