//! The figures as people read them.
use super::super::color;
use super::super::table::{Cell, Table};
use super::figures::{Figures, Simulated};
use tanist_api::spec::Primaries;

/// The most seeds that are listed in a sentence.
const SEEDS: usize = 10;

/// Everything, for people.
pub fn text(simulated: &Simulated, colors: bool) -> String {
    let mut text = String::new();
    for line in simulated.transcript.iter().flatten() {
        text.push_str(&format!("{line}\n"));
    }
    if simulated.transcript.is_some() {
        text.push('\n');
    }
    text.push_str(&head(simulated));
    text.push_str(&measures(simulated).text(colors));
    text.push_str(&worst(simulated, colors));
    text.push_str(&end(simulated));
    text
}

/// The head of the output: group, seeds, faults, and the policies that are compared.
fn head(simulated: &Simulated) -> String {
    let (group, lives) = (&simulated.group, simulated.yours.lives);
    let last = simulated.first_seed.saturating_add(lives.saturating_sub(1));
    let primaries = match group.primaries {
        Primaries::All => "all of them primary".to_owned(),
        Primaries::Count(count) => format!("{count} of them primary"),
    };
    let faults = match &simulated.faults {
        None => "each life drew its kinds of faults".to_owned(),
        Some(kinds) => format!("faults: {}", kinds.join(", ")),
    };
    let seeds = if lives == 1 { format!("seed {last}") } else { format!("seeds {} to {last}", simulated.first_seed) };
    let refused = simulated.exam.as_ref().map(|why| format!("the operator would not let yours decide: {why}\n"));
    format!(
        "{lives} {} of {}, {} members, {primaries}; {seeds}; {faults}\nyours: {}\nbuilt-in: {}\n{}\n",
        if lives == 1 { "life" } else { "lives" },
        group.name,
        group.replicas,
        simulated.yours.policies.join(", then "),
        simulated.built_in.policies.join(", then "),
        refused.unwrap_or_default(),
    )
}

fn measures(simulated: &Simulated) -> Table {
    let mut table = Table::new(&["MEASURE", "YOURS", "BUILT-IN"]);
    let mut row = |what: &str, of: &dyn Fn(&Figures) -> String| {
        table.add(vec![Cell::plain(what), Cell::plain(of(&simulated.yours)), Cell::plain(of(&simulated.built_in))]);
    };
    let seconds = |time: f64| format!("{time:.1} s");
    row("a primary is wanted", &|f| seconds(f.wanted_seconds));
    row("none serves", &|f| seconds(f.without_primary_seconds));
    row("as a share", &|f| format!("{:.2} %", f.without_primary_share * 100.0));
    row("outages", &|f| f.outages.to_string());
    row("half of them at most", &|f| seconds(f.outage_p50_seconds));
    row("99 % of them at most", &|f| seconds(f.outage_p99_seconds));
    row("longest", &|f| seconds(f.longest_outage_seconds));
    row("failovers", &|f| f.failovers.to_string());
    row("switchovers", &|f| f.switchovers.to_string());
    row("answers that the host dropped", &|f| f.refused_answers.to_string());
    row("questions that a policy failed to answer", &|f| f.failed_decisions.to_string());
    row("groups not well at the end", &|f| f.unwell.to_string());
    row("promises broken", &|f| f.broken.len().to_string());
    table
}

fn worst(simulated: &Simulated, colors: bool) -> String {
    if simulated.worst.is_empty() || simulated.transcript.is_some() {
        return String::new();
    }
    let mut table = Table::new(&["WORST SEED", "BEGINS AT", "OUTAGE"]);
    for each in &simulated.worst {
        table.add(vec![
            Cell::plain(each.seed.to_string()),
            Cell::plain(format!("{:.1} s", each.from_second)),
            Cell::styled(format!("{:.1} s", each.seconds), color::bad()),
        ]);
    }
    let seed = simulated.worst.first().map_or(simulated.first_seed, |each| each.seed);
    format!("\n{}what happened there: the same command with --seed {seed} --seeds 1 --transcript\n", table.text(colors))
}

/// What is not well, and what to do.
fn end(simulated: &Simulated) -> String {
    let mut text = String::new();
    for (whose, broken) in [("yours", &simulated.yours.broken), ("built-in", &simulated.built_in.broken)] {
        for each in broken {
            text.push_str(&format!("\nPROMISE BROKEN in seed {} ({whose}): {}\n", each.seed, each.what));
        }
    }
    if simulated.has_broken() {
        text.push_str(
            "No policy may be able to cause that: it is a fault of Tanist. Please report it with the seed, the arguments, the policy and the manifest.\n",
        );
    }
    let (yours, built_in) = (simulated.yours.unwell, simulated.built_in.unwell);
    if yours > built_in {
        let seeds: Vec<_> = simulated.yours.unwell_seeds.iter().take(SEEDS).map(u64::to_string).collect();
        let more = if yours > SEEDS as u64 { ", ..." } else { "" };
        let groups = if yours == 1 { "group was" } else { "groups were" };
        text.push_str(&format!(
            "\n{yours} {groups} not well at the end, and {built_in} with the built-in policy. Seeds: {}{more}\n",
            seeds.join(", ")
        ));
    }
    text
}
