//! The report as one self-contained page, for light and dark screens, wide and narrow.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::plot::{self, Bar, Group};
use super::report::{Report, Table, figure};
use super::result::Column;

const STYLE: &str = include_str!("report.css");

/// The whole page.
pub fn render(report: &Report) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Stile: the same work on several kernels" }
                // An empty icon, so that no browser requests one from a server.
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "The same work on several kernels" }
                    p { (report.measured()) }
                    p { (report.not_equal) }
                    nav { @for table in &report.tables { a href=(format!("#{}", table.head.id)) { (table.head.title) } } }
                }
                main { @for table in &report.tables { (section(table)) } }
            }
        }
    };
    page.into_string()
}

fn section(table: &Table) -> Markup {
    let head = &table.head;
    html! {
        section id=(head.id) {
            h2 { (head.title) }
            p { (head.unit) ". " (head.note) }
            @for column in &table.columns { (failure(column)) }
            @if head.ratios && table.columns.len() > 1 {
                (legend(table))
                figure { (plot::bars(&head.title, &groups(table))) }
            }
            div.wide { (grid(table)) }
            details {
                summary { "Kernels and commands" }
                dl {
                    @for column in &table.columns {
                        dt { (column.label) }
                        dd { (column.kernel) }
                        @for command in &column.commands { dd { pre { (command) } } }
                    }
                }
            }
        }
    }
}

fn failure(column: &Column) -> Markup {
    html! {
        @if let Some(failure) = &column.failure {
            div.failure {
                p { strong { (column.label) } ": " (failure.reason) }
                @if !failure.console.is_empty() { pre { (failure.console) } }
            }
        }
    }
}

fn legend(table: &Table) -> Markup {
    html! {
        ul.legend {
            @for (place, column) in table.columns.iter().enumerate() {
                li { span class=(format!("c{place}")) {} (column.label) }
            }
        }
    }
}

/// Rows as groups of bars; rows of one kind are sorted by the distance of the other columns from
/// the first, largest first.
fn groups(table: &Table) -> Vec<Group> {
    let furthest = |name: &str| {
        let ratios = table
            .columns
            .iter()
            .filter_map(|column| table.ratio(name, column));
        ratios.fold(0.0, f64::max)
    };
    let mut names: Vec<&str> = table.rows.iter().map(|(name, _)| name.as_str()).collect();
    if table.head.mean {
        names.sort_by(|one, other| furthest(other).total_cmp(&furthest(one)));
    }
    let group = |name: &str| {
        let values: Vec<_> = table
            .columns
            .iter()
            .map(|column| table.value(name, column))
            .collect();
        let most = values
            .iter()
            .flatten()
            .copied()
            .fold(f64::MIN_POSITIVE, f64::max);
        let bar = |(colour, value): (usize, &Option<f64>)| {
            let value = (*value)?;
            let ratio = table
                .ratio(name, &table.columns[colour])
                .filter(|_| colour > 0);
            let ratio = ratio.map_or(String::new(), |ratio| format!(" ×{ratio:.2}"));
            Some(Bar {
                colour,
                share: value / most,
                text: figure(value) + &ratio,
            })
        };
        let bars = values.iter().enumerate().filter_map(bar).collect();
        Group {
            name: name.to_owned(),
            bars,
        }
    };
    names
        .into_iter()
        .map(group)
        .filter(|group| !group.bars.is_empty())
        .collect()
}

fn grid(table: &Table) -> Markup {
    html! {
        table {
            thead { tr { th {} @for column in &table.columns { th scope="col" { (column.label) } } } }
            tbody {
                @for (name, window) in &table.rows {
                    tr {
                        th scope="row" { (table.marked_name(name)) @if !window.is_empty() { small { (window) } } }
                        @for (place, column) in table.columns.iter().enumerate() { td { (cell(table, name, place, column)) } }
                    }
                }
                @if table.head.mean && table.columns.len() > 1 {
                    tr.mean {
                        th scope="row" { "geometric mean" }
                        @for (place, column) in table.columns.iter().enumerate() {
                            td { @if let Some(mean) = table.mean(column).filter(|_| place > 0) { "×" (format!("{mean:.2}")) } }
                        }
                    }
                }
            }
        }
    }
}

fn cell(table: &Table, name: &str, place: usize, column: &Column) -> Markup {
    let ratio = table
        .ratio(name, column)
        .filter(|_| place > 0 && table.head.ratios);
    html! {
        @match table.cell(name, column) {
            None => "not measured",
            Some(cell) => @match (cell.value, &cell.remark) {
                (Some(value), _) => {
                    (figure(value))
                    @if let Some(ratio) = ratio { small { "×" (format!("{ratio:.2}")) } }
                    @if let Some(median) = cell.median.filter(|median| *median > value * 1.02) {
                        small { "median " (figure(median)) }
                    }
                }
                (None, Some(remark)) => (remark),
                (None, None) => "not measured",
            }
        }
    }
}
