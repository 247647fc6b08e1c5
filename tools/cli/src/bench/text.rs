//! The report in the terminal.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table as Grid};

use super::report::{Report, Table, figure};

/// The tables, one under the other, except those that only the page has.
pub fn render(report: &Report) -> String {
    let shown = report.tables.iter().filter(|table| !table.head.detail);
    shown.map(table).collect::<Vec<_>>().join("\n")
}

fn table(table: &Table) -> String {
    let mut grid = Grid::new();
    grid.load_style(NOTHING);
    let labels = table.columns.iter().map(|column| column.label.clone());
    grid.set_header(std::iter::once(String::new()).chain(labels));
    for (name, _) in &table.rows {
        let cells = table.columns.iter().enumerate().map(|(place, column)| {
            let ratio = table
                .ratio(name, column)
                .filter(|_| place > 0 && table.head.ratios);
            match (table.cell(name, column), ratio) {
                (Some(cell), Some(ratio)) => {
                    format!("{} ×{ratio:.2}", cell.value.map_or("-".into(), figure))
                }
                (Some(cell), None) => match (cell.value, &cell.remark) {
                    (Some(value), _) => figure(value),
                    (None, Some(remark)) => remark.clone(),
                    (None, None) => "-".into(),
                },
                (None, _) => "-".into(),
            }
        });
        grid.add_row(std::iter::once(table.marked_name(name)).chain(cells));
    }
    if table.head.mean && table.columns.len() > 1 {
        let means =
            table
                .columns
                .iter()
                .enumerate()
                .map(|(place, column)| match table.mean(column) {
                    Some(mean) if place > 0 => format!("×{mean:.2}"),
                    _ => String::new(),
                });
        grid.add_row(std::iter::once("geometric mean".into()).chain(means));
    }
    for place in 1..=table.columns.len() {
        if let Some(column) = grid.column_mut(place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let head = &table.head;
    let mut text = format!("{}\n{}\n", head.title, head.unit);
    text.extend(grid.lines().map(|line| format!("{}\n", line.trim_end())));
    for column in &table.columns {
        if let Some(failure) = &column.failure {
            text += &format!("{}: {}\n", column.label, failure.reason);
            text.extend(failure.console.lines().map(|line| format!("    {line}\n")));
        }
    }
    text
}
