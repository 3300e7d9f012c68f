//! The cluster state (`spec.clusterState`, D6): who the members are, in a ConfigMap under keys and in words that the user chooses.
//!
//! **The promise.** It is a pure function of the spec, the record and what was observed. The ConfigMap has it before a member starts, and each command is given the same values as environment:
//! the environment of process 1 cannot change, and files of a mounted ConfigMap are late. No rule rests on it, and nothing in it comes from a Secret.
use crate::contract::{MemberName, Phase, Role};
use crate::limits;
use crate::record::{Record, Verb};
use crate::roster;
use crate::snapshot::{Member, Snapshot};
use std::collections::{BTreeMap, BTreeSet};

/// What the user wants of the ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The name of the ConfigMap, in the group's namespace.
    pub name: String,
    /// The keys that are to be written, each with its text.
    pub entries: Vec<Entry>,
}

/// One key of the ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key, which is also the name of the environment variable.
    pub key: String,
    /// The text with its places, such as `$(NAME)`.
    pub text: String,
    /// Whether the text is repeated for each member.
    pub each: bool,
    /// What is between two members.
    pub separator: String,
}

/// The ConfigMap as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Stored {
    /// There is none, or the group wants none.
    #[default]
    Absent,
    /// It belongs to this group.
    Own {
        /// Its `resourceVersion` as it was seen: a precondition of changing it.
        version: String,
        /// The keys that were written last, as [`keys`] says them. Others are somebody else's.
        keys: String,
        /// All values of the ConfigMap, by key.
        data: Data,
    },
    /// A write of it that nobody waited for is under way, so what was read may be over.
    Writing,
    /// A ConfigMap of that name belongs to somebody else. It is never written.
    Foreign,
    /// It could not be read, for this reason.
    Unknown(String),
}

/// The rendered values, by key.
pub type Data = BTreeMap<String, String>;

/// The places that stand for something of the whole group.
pub const OF_GROUP: [&str; 7] = ["GROUP", "NAMESPACE", "UID", "STATE", "COUNT", "NAMES", "ADDRESSES"];

/// The places that stand for something of one member.
pub const OF_MEMBER: [&str; 4] = ["NAME", "ADDRESS", "ORDINAL", "ID"];

impl Stored {
    /// Whether it has these values, and no key that was written before and is not wanted any more.
    #[must_use]
    pub fn has(&self, wanted: &Data) -> bool {
        let Stored::Own { keys: written, data, .. } = self else { return false };
        *written == keys(wanted) && wanted.iter().all(|(key, value)| data.get(key) == Some(value))
    }
}

/// The keys in one text.
#[must_use]
pub fn keys(data: &Data) -> String {
    data.keys().map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// The values as environment variables, `KEY=VALUE`.
#[must_use]
pub fn variables(data: &Data) -> Vec<String> {
    data.iter().map(|(key, value)| format!("{key}={value}")).collect()
}

/// The environment of a command that only asks. Without the cluster state if the group wants none, or it cannot be rendered.
#[must_use]
pub fn environment(s: &Snapshot) -> Vec<String> {
    let template = s.group.cluster_state.as_ref();
    let data = template.and_then(|template| render(s, template, &s.record, None).ok());
    of_version(&s.record).into_iter().chain(data.iter().flat_map(variables)).collect()
}

/// The version of the data as an environment variable. `None`: the user names none.
#[must_use]
pub fn of_version(record: &Record) -> Option<String> {
    record.version.as_ref().map(|version| format!("{VERSION}={version}"))
}

/// The name of that variable.
pub const VERSION: &str = "TANIST_VERSION";

/// The key in an argument such as `$(STATE:KEY)`, which is replaced by the value of that key.
#[must_use]
pub fn key_in(argument: &str) -> Option<&str> {
    argument.strip_prefix("$(STATE:")?.strip_suffix(')')
}

/// Whether the command of a verb starts this member: the ConfigMap names it before. A secondary that becomes primary runs already, and does not wait.
#[must_use]
pub fn starts(s: &Snapshot, verb: Verb, member: &Member) -> bool {
    s.group.cluster_state.is_some() && verb.leaves_running() && s.role(member).0 != Role::Secondary
}

/// Why a command has to wait. `begins`: the member that it starts; the ConfigMap has to name it before. Other commands need the values only if one of their arguments is replaced by a value.
#[must_use]
pub fn blocks(s: &Snapshot, record: &Record, begins: Option<&MemberName>, exec: &[String]) -> Option<String> {
    let template = s.group.cluster_state.as_ref()?;
    let is_value = |key: &str| template.entries.iter().any(|entry| entry.key == key);
    if begins.is_none() && !exec.iter().any(|argument| key_in(argument).is_some_and(is_value)) {
        return None;
    }
    let unwritable = unwritable(s, template).filter(|_| begins.is_some());
    unwritable.or_else(|| render(s, template, record, begins).err())
}

/// Why the ConfigMap is not written.
pub(crate) fn unwritable(s: &Snapshot, template: &Template) -> Option<String> {
    let name = &template.name;
    match &s.cluster_state {
        Stored::Absent | Stored::Own { .. } => None,
        Stored::Writing => Some(format!("ConfigMap {name}, which has the cluster state, is being written")),
        Stored::Foreign => Some(format!(
            "ConfigMap {name} exists and is not the cluster state of this group, so it is not written: remove it, or choose another spec.clusterState.name"
        )),
        Stored::Unknown(why) => Some(format!("ConfigMap {name}, which has the cluster state, cannot be read: {why}")),
    }
}

/// The values. `starts`: a member that is about to be started and is no part of the record yet.
///
/// # Errors
/// In words: they are too long.
pub fn render(s: &Snapshot, template: &Template, record: &Record, starts: Option<&MemberName>) -> Result<Data, String> {
    let members = members(s, record, starts);
    let mut data = Data::new();
    let mut left = limits::STATE_BYTES;
    for entry in &template.entries {
        let value = value(s, entry, record, &members, left).ok_or_else(|| {
            format!(
                "the values of spec.clusterState have more than {} bytes with {} members: shorten {} or another key",
                limits::STATE_BYTES,
                members.len(),
                entry.key
            )
        })?;
        left = left.saturating_sub(value.len());
        data.insert(entry.key.clone(), value);
    }
    Ok(data)
}

/// The members that are named, by ordinal: those that the application lists, or else those that run, and in any case whoever is being started.
#[must_use]
pub fn members(s: &Snapshot, record: &Record, starts: Option<&MemberName>) -> Vec<MemberName> {
    if let Some(alone) = record.intents.iter().find(|intent| intent.verb == Verb::Recover) {
        return vec![alone.member.clone()];
    }
    let begun = record.intents.iter().filter(|intent| intent.verb.leaves_running()).map(|intent| &intent.member);
    let agrees = s.group.commands.membership.is_some();
    let listed = record.membership.as_ref().filter(|_| agrees);
    let there: BTreeSet<&MemberName> = match listed {
        Some(listed) => listed.members.iter().filter_map(|listed| listed.member.as_ref()).collect(),
        None => s.members.iter().filter(|member| runs(s, record, member)).map(|member| &member.name).collect(),
    };
    let all = there.into_iter().chain(begun).chain(starts);
    let numbered = all.filter_map(|name| Some((roster::ordinal(&s.group.name, name.as_str())?, name.clone())));
    numbered.collect::<BTreeMap<_, _>>().into_values().collect()
}

/// Whether the member runs. One that was in its role and cannot be asked now goes on to count.
fn runs(s: &Snapshot, record: &Record, member: &Member) -> bool {
    let phase = member.pod.as_ref().map(|pod| pod.phase);
    match s.seen(member).0 {
        Role::Primary | Role::Secondary | Role::Starting => true,
        Role::Unknown => {
            let known = record.member(&member.name);
            let was_there = known.term == Some(record.term) && known.started.is_none();
            was_there && matches!(phase, Some(Phase::Running | Phase::Unreachable))
        }
        Role::Stopped | Role::Failed => false,
    }
}

/// Whether the application was ever formed: until then only the first member starts.
fn is_new(record: &Record) -> bool {
    record.membership.is_none() && record.ever_seeded.as_ref().is_none_or(|seeded| !seeded.confirmed)
}

/// The value of a key. `None`: it is longer than `most` bytes.
fn value(s: &Snapshot, entry: &Entry, record: &Record, members: &[MemberName], most: usize) -> Option<String> {
    let address = |member: &MemberName| s.address(member);
    let joined = |words: Vec<String>| words.join(&entry.separator);
    let of_group = |place: &str| match place {
        "GROUP" => Some(s.group.name.clone()),
        "NAMESPACE" => Some(s.group.namespace.clone()),
        "UID" => Some(s.group.uid.clone()),
        "STATE" => Some(if is_new(record) { "new" } else { "existing" }.to_owned()),
        "COUNT" => Some(members.len().to_string()),
        "NAMES" => Some(joined(members.iter().map(ToString::to_string).collect())),
        "ADDRESSES" => Some(joined(members.iter().map(address).collect())),
        _ => None,
    };
    if !entry.each {
        return expand(&entry.text, most, of_group);
    }
    let mut whole = String::new();
    for (number, member) in members.iter().enumerate() {
        let of_member = |place: &str| match place {
            "NAME" => Some(member.to_string()),
            "ADDRESS" => Some(address(member)),
            "ORDINAL" => roster::ordinal(&s.group.name, member.as_str()).map(|ordinal| ordinal.to_string()),
            "ID" => Some(
                record
                    .membership
                    .as_ref()
                    .and_then(|all| all.of(member))
                    .map_or_else(String::new, |own| own.id.clone()),
            ),
            other => of_group(other),
        };
        whole.push_str(if number == 0 { "" } else { &entry.separator });
        let left = most.checked_sub(whole.len())?;
        whole.push_str(&expand(&entry.text, left, of_member)?);
    }
    Some(whole)
}

/// The text with its places filled in; what is no place stays as it is. `None`: it is longer than `most` bytes.
fn expand(text: &str, most: usize, word: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (mut whole, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("$(") {
        whole.push_str(before);
        let filled = after.split_once(')').and_then(|(place, behind)| Some((word(place)?, behind)));
        match filled {
            Some((word, behind)) => {
                whole.push_str(&word);
                rest = behind;
            }
            None => {
                whole.push_str("$(");
                rest = after;
            }
        }
        if whole.len() > most {
            return None;
        }
    }
    whole.push_str(rest);
    (whole.len() <= most).then_some(whole)
}

/// The first thing in the text that begins as a place and is none.
#[must_use]
pub fn unknown_place(text: &str, each: bool) -> Option<String> {
    let is_known = |place: &str| OF_GROUP.contains(&place) || each && OF_MEMBER.contains(&place);
    let mut parts = text.split("$(").skip(1);
    parts.find_map(|part| match part.split_once(')') {
        Some((place, _)) if is_known(place) => None,
        Some((place, _)) => Some(format!("$({place})")),
        None => Some(format!("$({part}")),
    })
}
