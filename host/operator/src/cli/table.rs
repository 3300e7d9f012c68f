//! Tables in kubectl's form: heads in capitals, three blanks between columns, no lines.
use super::color::paint;
use super::output::printable;
use anstyle::Style;
use std::io::Write as _;
use tabwriter::TabWriter;

/// Blanks between two columns.
const GAP: usize = 3;

/// A cell: one line of text with a colour. Control characters become blanks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A cell in that colour.
    pub fn styled(text: impl Into<String>, style: Style) -> Self {
        let text: String = text.into();
        let text = if text.is_empty() { "-".to_owned() } else { text };
        Cell { text: printable(&text), style }
    }

    /// A cell without colour. An empty text is shown as a dash.
    pub fn plain(text: impl Into<String>) -> Self {
        Cell::styled(text, Style::new())
    }

    /// A cell without colour. `None` is shown as a dash.
    pub fn optional(text: Option<&str>) -> Self {
        Cell::plain(text.unwrap_or_default())
    }
}

/// A table. Rows may be added after it was printed: they use the same columns.
#[derive(Debug)]
pub struct Table {
    heads: Vec<Cell>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new(heads: &[&'static str]) -> Self {
        Table { heads: heads.iter().map(|head| Cell::plain(*head)).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn add(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// Heads and all rows, each line with a newline.
    pub fn text(&self, colors: bool) -> String {
        let lines = std::iter::once(&self.heads).chain(&self.rows).map(|row| line(row, colors));
        align(&lines.collect::<String>())
    }

    /// The last row alone, with a newline.
    pub fn last(&self, colors: bool) -> String {
        let all = self.text(colors);
        let last = all.lines().skip(1).last().map(|line| format!("{line}\n"));
        last.unwrap_or_default()
    }

    /// Forgets all rows but the widest cell of each column, so that later rows stand below them however many there were.
    pub fn keep_widths(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let widest =
            |column: usize| rows.iter().filter_map(|row| row.get(column)).max_by_key(|cell| width(cell)).cloned();
        let kept: Vec<_> = (0..self.heads.len()).map_while(widest).collect();
        self.rows = Some(kept).filter(|row| !row.is_empty()).into_iter().collect();
    }
}

/// How many columns of a terminal the text of a cell takes.
fn width(cell: &Cell) -> usize {
    cell.text.chars().count()
}

/// Cells between tabs, the last one without a tab: it is as wide as its text.
fn line(row: &[Cell], colors: bool) -> String {
    let cells: Vec<_> = row.iter().map(|cell| paint(&cell.text, cell.style, colors)).collect();
    format!("{}\n", cells.join("\t"))
}

fn align(lines: &str) -> String {
    let mut writer = TabWriter::new(Vec::new()).minwidth(0).padding(GAP).ansi(true);
    let aligned = writer.write_all(lines.as_bytes()).and_then(|()| writer.flush());
    let bytes = aligned.ok().and_then(|()| writer.into_inner().ok());
    // Writing to memory cannot fail; if it did, columns that are not aligned would be better than none.
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| lines.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::color;
    use super::*;

    #[test]
    fn columns_stand_below_each_other_with_colours_and_without() {
        let mut table = Table::new(&["NAME", "READY", "AGE"]);
        table.add(vec![Cell::plain("register"), Cell::styled("True", color::good()), Cell::plain("5s")]);
        table.add(vec![Cell::plain("ü"), Cell::optional(None), Cell::plain("two\nlines")]);
        let text = "NAME       READY   AGE\nregister   True    5s\nü          -       two lines\n";
        assert_eq!(table.text(false), text);
        let colored = table.text(true);
        assert!(colored.contains("register   \u{1b}[32mTrue\u{1b}[0m    5s\n"), "{colored}");
        table.add(vec![Cell::plain("a"), Cell::plain("False"), Cell::plain("1d")]);
        assert_eq!(table.last(false), "a          False   1d\n");
        for age in 0..100 {
            table.keep_widths();
            table.add(vec![Cell::plain("a"), Cell::plain("True"), Cell::plain(format!("{age}m"))]);
        }
        assert_eq!(table.last(false), "a          True    99m\n", "as wide as before");
        assert_eq!(table.rows.len(), 2, "a watch of weeks keeps no rows");
    }
}
