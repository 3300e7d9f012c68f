//! What happens to the primary, and what happens beside it.
use anyhow::{Result, bail};
use std::fmt;
use std::str::FromStr;

/// How the primary is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Its server is killed.
    Process,
    /// Its container is, from the node.
    Container,
    /// Its pod is deleted, with grace.
    Pod,
    /// The same by force, without.
    PodForced,
    /// A switchover is requested.
    Switchover,
    /// Its node loses power, and an administrator declares that.
    Node,
    /// The same without a declaration.
    NodeBack,
    /// Its node's link is cut.
    Partition,
    /// The template changes: each member gets a new pod, the primary last.
    Update,
    /// The same with an image that does not exist, until the next template.
    UpdateBroken,
}

const LOSSES: [(Loss, &str); 10] = [
    (Loss::Process, "process"),
    (Loss::Container, "container"),
    (Loss::Pod, "pod"),
    (Loss::PodForced, "pod-forced"),
    (Loss::Switchover, "switchover"),
    (Loss::Node, "node"),
    (Loss::NodeBack, "node-back"),
    (Loss::Partition, "partition"),
    (Loss::Update, "update"),
    (Loss::UpdateBroken, "update-broken"),
];

impl Loss {
    /// Nobody knows of the old primary until somebody, or the world, says so.
    pub fn is_silent(self) -> bool {
        matches!(self, Loss::Node | Loss::NodeBack | Loss::Partition)
    }

    /// The node loses its power, and whoever looks from there.
    pub fn takes_power(self) -> bool {
        matches!(self, Loss::Node | Loss::NodeBack)
    }

    /// Nobody is lost: all members get new pods.
    pub fn is_update(self) -> bool {
        matches!(self, Loss::Update | Loss::UpdateBroken)
    }
}

/// Who gets nothing from the primary for a while before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lag {
    /// The standby that would be the first among equals.
    One,
    /// Every standby gets nothing from the primary.
    All,
}

/// Who is killed in the middle of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbed {
    /// The operator: its process, or its pod by force.
    Operator,
    /// The API server.
    Api,
    /// The operator and the API server.
    Both,
}

impl Disturbed {
    /// The operator is killed.
    pub fn operator(self) -> bool {
        self != Disturbed::Api
    }

    /// The API server is.
    pub fn api(self) -> bool {
        self != Disturbed::Operator
    }
}

/// A round: `LOSS[+BESIDE...]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// How the primary is lost.
    pub loss: Loss,
    /// Which standbys get nothing from the primary before the loss. Absent: none is cut off.
    pub lag: Option<Lag>,
    /// Who is killed beside it.
    pub disturbed: Option<Disturbed>,
}

/// The usual rounds, in turn.
pub const USUAL: &str = "process,container,pod,pod-forced,switchover,node,node-back,partition,\
    process+lag,container+operator,pod+api,switchover+operator,partition+operator,node+lag,node-back+both,\
    partition+api,container+lag+operator,pod+lag,process+both,partition+lag";

/// The rounds of `--updates`, in turn.
pub const UPDATES: &str = "update,update+operator,update-broken,update+lag,update+api,update-broken+operator";

impl FromStr for Kind {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut words = text.split('+');
        let first = words.next().unwrap_or_default();
        let Some((loss, _)) = LOSSES.iter().find(|(_, word)| *word == first) else { bail!("no such loss: {first}") };
        let mut kind = Kind { loss: *loss, lag: None, disturbed: None };
        for word in words {
            match word {
                "lag" => kind.lag = Some(Lag::One),
                "lag-all" => kind.lag = Some(Lag::All),
                "operator" => kind.disturbed = Some(Disturbed::Operator),
                "api" => kind.disturbed = Some(Disturbed::Api),
                "both" => kind.disturbed = Some(Disturbed::Both),
                _ => bail!("nothing to happen beside a loss: {word}"),
            }
        }
        Ok(kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(LOSSES.iter().find(|(loss, _)| *loss == self.loss).map_or("", |(_, word)| word))?;
        f.write_str(match self.lag {
            None => "",
            Some(Lag::One) => "+lag",
            Some(Lag::All) => "+lag-all",
        })?;
        f.write_str(match self.disturbed {
            None => "",
            Some(Disturbed::Operator) => "+operator",
            Some(Disturbed::Api) => "+api",
            Some(Disturbed::Both) => "+both",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_rounds_are_twenty_and_say_what_they_are() {
        let usual: Vec<Kind> = USUAL.split(',').map(|word| word.parse().unwrap()).collect();
        assert_eq!(usual.len(), 20);
        assert_eq!(usual.iter().map(ToString::to_string).collect::<Vec<_>>().join(","), USUAL);
        let updates: Vec<Kind> = UPDATES.split(',').map(|word| word.parse().unwrap()).collect();
        assert_eq!(updates.iter().map(ToString::to_string).collect::<Vec<_>>().join(","), UPDATES);
        assert!(updates.iter().all(|kind| kind.loss.is_update()) && !usual.iter().any(|kind| kind.loss.is_update()));
    }

    #[test]
    fn what_is_no_round_is_refused() {
        for wrong in ["", "proces", "process+", "process+late", "lag"] {
            assert!(wrong.parse::<Kind>().is_err(), "{wrong}");
        }
    }
}
