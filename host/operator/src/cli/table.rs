//! Tables in kubectl's form: heads in capitals, three blanks between columns, no lines.
use super::color::paint;
use anstyle::Style;

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
        Cell { text: text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect(), style }
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
    heads: Vec<&'static str>,
    widths: Vec<usize>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new(heads: &[&'static str]) -> Self {
        Table { heads: heads.to_vec(), widths: heads.iter().map(|h| h.len()).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn add(&mut self, row: Vec<Cell>) {
        for (width, cell) in self.widths.iter_mut().zip(&row) {
            *width = (*width).max(cell.text.chars().count());
        }
        self.rows.push(row);
    }

    /// Heads and all rows, each line with a newline.
    pub fn text(&self, colors: bool) -> String {
        let heads: Vec<_> = self.heads.iter().map(|h| Cell::plain(*h)).collect();
        std::iter::once(&heads).chain(&self.rows).map(|row| self.line(row, colors)).collect()
    }

    /// The last row alone, with a newline.
    pub fn last(&self, colors: bool) -> String {
        self.rows.last().map(|row| self.line(row, colors)).unwrap_or_default()
    }

    fn line(&self, row: &[Cell], colors: bool) -> String {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(&self.widths).enumerate() {
            line.push_str(&paint(&cell.text, cell.style, colors));
            if at + 1 < row.len() {
                let blanks = width.saturating_sub(cell.text.chars().count()).saturating_add(GAP);
                line.extend(std::iter::repeat_n(' ', blanks));
            }
        }
        line.push('\n');
        line
    }
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
    }
}
