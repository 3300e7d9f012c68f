//! What `> show` prints.
use tanist_core::plan::Plan;
use tanist_core::snapshot::Snapshot;
use tanist_core::status::{PolicyHealth, report};

/// What the last round knew, as `> show` wants it.
pub fn show(snapshot: &Snapshot, plan: &Plan, what: &str) -> Vec<String> {
    let record = &plan.record;
    match what {
        "conditions" => {
            let health = PolicyHealth::Active("natural 1".into());
            let report = report(snapshot, plan, &health, None);
            report
                .conditions
                .iter()
                .map(|c| format!("{} {} {}: {}", c.kind.as_str(), c.status.as_str(), c.reason.as_str(), c.message))
                .collect()
        }
        "failures" => record
            .members
            .iter()
            .map(|(n, m)| {
                let at = |t: Option<i64>| t.map_or("-".into(), |t| format!("+{}", t - super::world::START));
                format!(
                    "{n}: {} failures, again at {}, treated {}, next at {}",
                    m.failures,
                    at(m.retry_at),
                    m.treated,
                    at(m.treat_at)
                )
            })
            .collect(),
        "intents" => {
            record.intents.iter().map(|i| format!("{} on {} in term {}", i.command, i.member, i.term)).collect()
        }
        "history" => record
            .history
            .iter()
            .map(|t| {
                format!(
                    "{} {} {}",
                    t.what,
                    t.member.as_ref().map_or("-", |m| m.as_str()),
                    t.detail.clone().unwrap_or_default()
                )
            })
            .collect(),
        "members" => {
            let health = PolicyHealth::Active("natural 1".into());
            let rows = report(snapshot, plan, &health, None).members;
            let known = record.membership.as_ref().map_or("no list".into(), |list| {
                format!("cluster {}, list {}, {} voters", list.cluster, list.revision, list.voters())
            });
            let said = rows.iter().map(|row| match row.membership {
                Some(membership) => format!("{} {membership:?}", row.name),
                None => format!("{} -", row.name),
            });
            vec![known, said.collect::<Vec<_>>().join(" | ")]
        }
        "memory" => {
            let retired: Vec<_> = record.retired.iter().map(ToString::to_string).collect();
            let retired = if retired.is_empty() { String::new() } else { format!(", retired: {}", retired.join(" ")) };
            let last: Vec<_> = record.last_primaries.iter().map(|l| l.member.to_string()).collect();
            let high = record.high_water.as_ref().map_or("-".into(), |m| format!("{} of term {}", m.sequence, m.term));
            vec![format!("term {}, high water {high}, last primaries: {}{retired}", record.term, last.join(" "))]
        }
        other => panic!("{other:?} cannot be shown"),
    }
}
