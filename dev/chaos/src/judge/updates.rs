//! Whether an update gives each member one new pod, and moves the lead once.
use crate::steps::{Command, Stamped};
use std::collections::{BTreeMap, BTreeSet};

/// How many new pods each member got since that moment, by the watch of pods: `NAME|ROLE|UID`.
pub fn new_pods(pods: &[Stamped], since: u64) -> BTreeMap<String, usize> {
    let mut known = BTreeSet::new();
    let mut new: BTreeMap<String, usize> = BTreeMap::new();
    for (at, line) in pods {
        let mut words = line.split('|');
        let (Some(name), Some(uid)) = (words.next(), words.nth(1)) else { continue };
        let is_new = known.insert(uid) && *at >= since;
        *new.entry(name.to_owned()).or_default() += usize::from(is_new);
    }
    new
}

/// Members that kept their pods, and pods beyond one for each member and those that a broken template had before.
pub fn not_once(new: &BTreeMap<String, usize>, broken: usize) -> Vec<String> {
    let kept = new.iter().filter(|(_, pods)| **pods == 0);
    let mut found: Vec<_> = kept.map(|(name, _)| format!("{name} still has its pod of before")).collect();
    let (pods, needed) = (new.values().sum::<usize>(), new.len() + broken);
    if pods > needed {
        found.push(format!("{pods} new pods were made, and {needed} are needed"));
    }
    found
}

/// A broken template took more than one pod.
pub fn went_further(new: &BTreeMap<String, usize>) -> Vec<String> {
    let took: Vec<_> = new.iter().filter(|(_, pods)| **pods > 0).map(|(name, _)| name.as_str()).collect();
    if took.len() > 1 { vec![format!("members that lost their pod: {}", took.join(", "))] } else { Vec::new() }
}

/// The lead moved more than once.
pub fn moved_again(commands: &[Command]) -> Vec<String> {
    let led: Vec<_> = commands.iter().filter(|command| command.makes_a_primary() && command.well).collect();
    match led[..] {
        [] | [_] => Vec::new(),
        [.., last] => vec![format!("the lead moved {} times, the last time to {}", led.len(), last.member)],
    }
}
