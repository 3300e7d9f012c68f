//! docs/simulator.md shows the figures of docs/benchmarks/simulator.json.
use super::sums::Sums;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

const BEGIN: &str = "<!-- figures: simulator -->\n";
const END: &str = "<!-- end of figures -->";

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// A number with a comma before every three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The table of a campaign.
fn table(figures: Option<&Value>) -> String {
    let Some((figures, (first, sums))) = figures.and_then(|figures| Some((figures, Sums::from_json(figures)?))) else {
        return "No campaign is recorded yet.\n".to_owned();
    };
    let float = |field: &str| figures.get(field).and_then(Value::as_f64).unwrap_or(0.0);
    let mut text = "| | |\n| --- | --- |\n".to_owned();
    let mut row = |what: &str, value: String| text += &format!("| {what} | {value} |\n");
    row("lives that went well", format!("{} from {}", grouped(sums.seeds), grouped(first)));
    row("lives that failed", format!("{:?}", sums.failed).replace("[]", "none"));
    row(
        "time",
        format!(
            "{:.0} s: {:.0} lives a second on {} processors",
            sums.seconds,
            float("seedsPerSecond"),
            figures["threads"]
        ),
    );
    row("faults of a life", format!("median {}, 99 of 100 have at most {}", sums.faults(50), sums.faults(99)));
    row("lived twice, the same both times", grouped(sums.twice));
    row("with a steady hour", grouped(sums.steady));
    text += "\n| fault | times |\n| --- | --- |\n";
    for (kind, times) in &sums.happened {
        text += &format!("| {kind:?} | {} |\n", grouped(*times));
    }
    text
}

/// The document with that table in its place.
fn rendered(document: &str, table: &str) -> String {
    let (before, rest) = document.split_once(BEGIN).expect("the place of the figures begins");
    let (_, after) = rest.split_once(END).expect("the place of the figures ends");
    format!("{before}{BEGIN}\n{table}\n{END}{after}")
}

// `TANIST_SIM_TABLE=write` writes it anew.
#[test]
fn the_table_is_that_of_the_figures() {
    let document = docs().join("simulator.md");
    let before = fs::read_to_string(&document).unwrap();
    let figures = fs::read_to_string(docs().join("benchmarks/simulator.json")).ok();
    let figures: Option<Value> = figures.map(|text| serde_json::from_str(&text).unwrap());
    let after = rendered(&before, &table(figures.as_ref()));
    if std::env::var("TANIST_SIM_TABLE").is_ok_and(|word| word == "write") {
        fs::write(&document, after).unwrap();
    } else {
        assert_eq!(before, after, "docs/simulator.md has other figures: TANIST_SIM_TABLE=write");
    }
}

#[test]
fn a_campaign_is_a_table() {
    let sums = Sums {
        seeds: 1_234_567,
        seconds: 100.0,
        happened: [(tanist_sim::faults::Fault::NodeGone, 1_000)].into(),
        lives_with: [(12, 1_234_567)].into(),
        ..Sums::default()
    };
    let table = table(Some(&sums.to_json(7, 2)));
    for part in ["1,234,567 from 7", "| none |", "12346 lives a second on 2", "median 12,", "| NodeGone | 1,000 |"] {
        assert!(table.contains(part), "{part} is missing: {table}");
    }
    assert_eq!(rendered(&format!("a\n{BEGIN}old\n{END}\nb"), "new\n"), format!("a\n{BEGIN}\nnew\n\n{END}\nb"));
}
