//! How answers and members are shown.
use super::super::color;
use super::super::output::printable;
use super::super::table::{Cell, Table};
use anstyle::Style;
use tanist_author::ask::{Cost, MemberRan, Named, Ran, Verdict};

/// An answer in one line.
pub fn answer(verdict: &Verdict) -> String {
    let until = |until: &Option<i64>| until.map(|at| format!(" (asked again at {at})")).unwrap_or_default();
    match verdict {
        Verdict::Choose { ranking, .. } => format!("choose {}", names(ranking)),
        Verdict::Treat { treatments } if treatments.is_empty() => "treat nobody".to_owned(),
        Verdict::Treat { treatments } => {
            let one = |each: &tanist_author::ask::Treated| {
                format!("{} {}", tanist_author::case::remedy_word(each.remedy), each.member)
            };
            treatments.iter().map(one).collect::<Vec<_>>().join(", then ")
        }
        Verdict::Wait { reason, until: at } => format!("wait: {reason}{}", until(at)),
        Verdict::Refuse { reason } => format!("refuse: {reason}"),
        Verdict::Abstain => "abstain".to_owned(),
        Verdict::Fail { reason, .. } => format!("fail: {reason}"),
        Verdict::Nobody { reason } => reason.clone(),
    }
}

fn names(ranking: &[Named]) -> String {
    let names: Vec<_> = ranking.iter().map(|each| each.member.as_str()).collect();
    names.join(", then ")
}

/// What the policies said, what that cost, and their notes.
pub fn layers(ran: &Ran, colors: bool) -> String {
    let mut table = Table::new(&["POLICY", "ANSWER", "FUEL", "MEMORY", "TIME"]);
    let mut notes = String::new();
    let mut decided = false;
    for layer in &ran.layers {
        let said = match &layer.answer {
            None => "not asked at this point".to_owned(),
            Some(said) if decided => format!("not asked; it would answer: {}", answer(said)),
            Some(said) => answer(said),
        };
        decided |= layer.decides;
        let failed = matches!(layer.answer, Some(Verdict::Fail { .. }));
        let style = if failed { color::bad() } else { Style::new() };
        let mut row = vec![Cell::plain(layer.policy.to_string()), Cell::styled(said, style)];
        row.extend(layer.cost.map_or_else(|| [0; 3].map(|_| Cell::optional(None)), cost));
        table.add(row);
        notes.extend(layer.notes.iter().map(|note| format!("note of {}: {}\n", layer.policy.name, printable(note))));
    }
    if ran.layers.is_empty() {
        return "no policy is asked\n".to_owned();
    }
    format!("{}{notes}", table.text(colors))
}

fn cost(cost: Cost) -> [Cell; 3] {
    [
        Cell::plain(format!("{} of {}", amount(cost.fuel), amount(cost.budget))),
        Cell::plain(format!("{} KiB", cost.memory >> 10)),
        Cell::plain(format!("{} us", cost.micros)),
    ]
}

/// A number with its thousands, as far as anybody looks.
pub fn amount(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..10_000_000 => format!("{}k", number / 1_000),
        _ => format!("{}M", number / 1_000_000),
    }
}

/// Every member with its reason.
pub fn members(members: &[MemberRan], colors: bool) -> String {
    let mut table = Table::new(&["MEMBER", "ROLE", "DATA", "RESULT", "REASON"]);
    for each in members {
        let style = match each.result.as_str() {
            "chosen" => color::good(),
            "barred" => color::open(),
            _ => Style::new(),
        };
        table.add(vec![
            Cell::plain(each.member.clone()),
            Cell::styled(each.role.clone(), color::role(&each.role)),
            Cell::plain(each.data.clone()),
            Cell::styled(each.result.clone(), style),
            Cell::plain(each.reason.clone()),
        ]);
    }
    table.text(colors)
}
