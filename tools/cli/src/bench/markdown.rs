//! The report as Markdown: `docs/results.md`.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::report::{Report, Table, figure};

/// The whole report.
pub fn render(report: &Report) -> String {
    let mut text = format!(
        "# Results\n\n{}\n\n{}\n",
        report.measured(),
        report.not_equal
    );
    text.extend(report.tables.iter().map(render_table));
    wrapped(&(text + &render_commands(report)))
}

/// The text with lines of at most 100 columns, except tables and quotations.
fn wrapped(text: &str) -> String {
    let (mut result, mut quoted) = (String::new(), false);
    for line in text.lines() {
        quoted ^= line.starts_with("```");
        let indent = if line.starts_with("- ") { "\n  " } else { "\n" };
        let mut columns = 0;
        for word in line.split_inclusive(' ') {
            let len = word.trim_end().chars().count();
            if columns + len > 100 && !quoted && !line.starts_with('|') {
                result.truncate(result.trim_end().len());
                result += indent;
                columns = indent.len() - 1;
            }
            result += word;
            columns += word.chars().count();
        }
        result.push('\n');
    }
    result
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
    // Writing to a string cannot fail.
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
            escape(&table.marked_name(name)),
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
    for column in &table.columns {
        if let Some(failure) = &column.failure {
            let _ = writeln!(
                text,
                "\n{}: **{}**\n\n```",
                escape(&column.label),
                failure.reason
            );
            text.extend(failure.console.lines().map(|line| format!("{line}\n")));
            text += "```\n";
        }
    }
    match head.detail {
        true => format!(
            "\n<details><summary>{}</summary>\n{text}\n</details>\n",
            head.title
        ),
        false => text,
    }
}

/// Each kernel and each command, listed once.
fn render_commands(report: &Report) -> String {
    let columns = || report.tables.iter().flat_map(|table| &table.columns);
    let kernels: BTreeSet<_> = columns()
        .filter(|column| !column.kernel.is_empty())
        .map(|column| (&column.label, &column.kernel))
        .collect();
    let commands: BTreeSet<_> = columns()
        .flat_map(|column| {
            column
                .commands
                .iter()
                .map(|command| (&column.label, command))
        })
        .collect();
    let mut text = String::from("\n## Kernels\n\n");
    for (label, kernel) in kernels {
        let _ = writeln!(text, "- {}: {kernel}", escape(label));
    }
    text += "\n<details><summary>Commands</summary>\n";
    for (label, command) in commands {
        let _ = writeln!(text, "\n{}:\n\n```\n{command}\n```", escape(label));
    }
    text + "\n</details>\n"
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

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_are_wrapped_but_for_tables_and_quotations() {
        let long = "word ".repeat(30);
        let text = format!("- {long}\n| {long}|\n```\n{long}\n```\n    short\n");
        let lines = wrapped(&text);
        let lines: Vec<_> = lines.lines().collect();
        let of_words = |count: usize| vec!["word"; count].join(" ");
        assert_eq!(lines[0], format!("- {}", of_words(19)));
        assert_eq!(lines[1].trim_end(), format!("  {}", of_words(11)));
        assert_eq!(
            lines[2..],
            [&*format!("| {long}|"), "```", &long, "```", "    short"]
        );
    }
}
