//! What the words of a story mean.
use super::super::policies;
use super::super::world;
use std::collections::BTreeMap;
use tanist_core::contract::{MemberName, Role};
use tanist_core::policy::{Point, Policies};
use tanist_core::record::LastPrimary;
use tanist_core::snapshot::{Batch, Mode, UpgradeOn};

/// `key=value` words.
pub(super) fn pairs(words: &str) -> BTreeMap<&str, &str> {
    words.split_whitespace().filter_map(|w| w.split_once('=')).collect()
}

pub(super) fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}

pub(super) fn ordinal(text: &str) -> u32 {
    world::ordinal(&MemberName::from(text))
}

pub(super) fn ran(member: &MemberName, node: &str) -> LastPrimary {
    let unknown = || format!("pod-of-{member}");
    LastPrimary {
        pod_uid: unknown(),
        container_id: unknown(),
        node: Some(node.into()),
        ..LastPrimary::by_name(member.clone())
    }
}

pub(super) fn mode(text: &str) -> Mode {
    match text {
        "by-operator" => Mode::ByOperator,
        "paused" => Mode::Paused,
        "by-hand" => Mode::ByHand,
        other => panic!("{other:?} is no mode of updates"),
    }
}

pub(super) fn batch(text: &str) -> Batch {
    match text {
        "member" => Batch::Member,
        "zone" => Batch::Zone,
        "all" => Batch::All,
        other => panic!("{other:?} is no batch"),
    }
}

pub(super) fn upgrade_on(text: &str) -> UpgradeOn {
    match text {
        "stopped-member" => UpgradeOn::StoppedMember,
        "primary" => UpgradeOn::Primary,
        other => panic!("data is converted on no {other:?}"),
    }
}

pub(super) fn role(text: &str) -> Role {
    match text {
        "unknown" => Role::Unknown,
        "stopped" => Role::Stopped,
        "starting" => Role::Starting,
        "secondary" => Role::Secondary,
        "primary" => Role::Primary,
        "failed" => Role::Failed,
        other => panic!("{other:?} is no role"),
    }
}

/// `policy natural`; `policy lead db-2`: the default rule with an opinion on the lead; `policy move db-2`: on which secondary moves;
/// `policy update db-2`: on who gets a changed template next; `policy judge db-2`: on whether it works;
/// `policy admit db-2`: on whether another number of members is let in; `policy order db-2`: on who comes or goes next.
pub(super) fn policy(name: &str) -> Box<dyn Policies> {
    if let Some(opinion) = name.strip_prefix("lead ") {
        return Box::new(lead(opinion));
    }
    if let Some(opinion) = name.strip_prefix("move ") {
        return Box::new(policies::At(Point::Rebalance, lead(opinion)));
    }
    if let Some(opinion) = name.strip_prefix("update ") {
        return Box::new(policies::At(Point::Update, lead(opinion)));
    }
    if let Some(opinion) = name.strip_prefix("judge ") {
        return Box::new(policies::At(Point::Judge, lead(opinion)));
    }
    if let Some(opinion) = name.strip_prefix("admit ") {
        return Box::new(policies::At(Point::Admit, lead(opinion)));
    }
    if let Some(opinion) = name.strip_prefix("order ") {
        return Box::new(policies::At(Point::Order, lead(opinion)));
    }
    match name {
        "natural" => Box::new(policies::Natural),
        "reversed" => Box::new(policies::Reversed),
        "broken" => Box::new(policies::Broken),
        "waits" => Box::new(policies::Waits),
        "refuses" => Box::new(policies::Refuses),
        other => panic!("{other:?} is no policy"),
    }
}

fn lead(opinion: &str) -> policies::Lead {
    use policies::Lead;
    match opinion.split_once(' ').unwrap_or((opinion, "")) {
        ("another", _) => Lead::Another,
        ("insists", name) => Lead::Insists(MemberName::from(name)),
        ("waits", seconds) => Lead::Waits(seconds.parse().ok()),
        ("refuses", _) => Lead::Refuses,
        ("abstains", _) => Lead::Abstains,
        ("broken", _) => Lead::Fails("trap"),
        ("loading", _) => Lead::Fails(tanist_core::policy::LOADING),
        ("missing", _) => Lead::Fails(tanist_core::policy::NOT_LOADED),
        ("late", _) => Lead::Fails(tanist_core::policy::CUT_OFF),
        (name, _) => Lead::To(MemberName::from(name)),
    }
}
