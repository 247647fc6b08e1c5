//! The report as Markdown: what `docs/results.md` is.

use std::fmt::Write;

use super::report::{Report, Table, figure};

/// The whole report.
pub fn render(report: &Report) -> String {
    let mut text = format!(
        "# Results\n\nMeasured on {} at {} by `stile bench`.\n",
        report.date, report.commit
    );
    for table in &report.tables {
        text += &render_table(table);
    }
    text
}

fn render_table(table: &Table) -> String {
    let head = &table.head;
    let mut text = format!(
        "\n## {}\n\n{}. {}\n\n",
        head.title,
        capital(&head.unit),
        head.note
    );
    let labels: Vec<_> = table
        .columns
        .iter()
        .map(|column| escape(&column.label))
        .collect();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "| | {} |\n| --- |{}",
        labels.join(" | "),
        " --: |".repeat(labels.len())
    );
    for (name, _) in &table.rows {
        let cells = table.columns.iter().enumerate().map(|(place, column)| {
            let ratio = table
                .ratio(name, column)
                .filter(|_| place > 0 && head.ratios);
            let ratio = ratio.map_or(String::new(), |ratio| format!(" (×{ratio:.2})"));
            match table.cell(name, column) {
                Some(cell) => match (cell.value, &cell.remark) {
                    (Some(value), _) => figure(value) + &ratio,
                    (None, Some(remark)) => escape(remark),
                    (None, None) => "not measured".into(),
                },
                None => "not measured".into(),
            }
        });
        let _ = writeln!(
            text,
            "| {} | {} |",
            escape(name),
            cells.collect::<Vec<_>>().join(" | ")
        );
    }
    if head.mean && table.columns.len() > 1 {
        let means =
            table
                .columns
                .iter()
                .enumerate()
                .map(|(place, column)| match table.mean(column) {
                    Some(mean) if place > 0 => format!("×{mean:.2}"),
                    _ => String::new(),
                });
        let _ = writeln!(
            text,
            "| geometric mean | {} |",
            means.collect::<Vec<_>>().join(" | ")
        );
    }
    let windows: Vec<_> = table
        .rows
        .iter()
        .filter(|(_, window)| !window.is_empty())
        .collect();
    if !windows.is_empty() {
        text += "\nWhat each row measures:\n\n";
        for (name, window) in windows {
            let _ = writeln!(text, "- `{name}`: {window}");
        }
    }
    text += "\n<details><summary>Kernels and commands</summary>\n\n";
    for column in &table.columns {
        let _ = writeln!(
            text,
            "- {}: {}",
            escape(&column.label),
            or(&column.kernel, "did not say its name")
        );
        for command in &column.commands {
            let _ = writeln!(text, "\n  ```\n  {command}\n  ```\n");
        }
        if let Some(failure) = &column.failure {
            let _ = writeln!(text, "\n  **{}**\n\n  ```", failure.reason);
            text.extend(failure.console.lines().map(|line| format!("  {line}\n")));
            text += "  ```\n";
        }
    }
    text += "\n</details>\n";
    text
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn escape(text: &str) -> String {
    text.replace('|', "\\|")
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}
