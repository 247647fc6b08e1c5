//! The crossings of a program, as `/proc/crossings` shows them: lines of section, name and number.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use crate::options::CountFormat;

/// The sections that the kernel names, in the order of the table and with its titles.
const SECTIONS: [(&str, &str); 9] = [
    ("syscall", "system calls"),
    ("call", "calls outside the table"),
    ("fault", "faults"),
    ("instruction", "trapped instructions"),
    ("interrupt", "interrupts"),
    ("guest", "exits of guests"),
    ("task", "switches and signals"),
    ("fence", "fences"),
    ("memory", "mappings"),
];

/// A kind of crossing, and how often it happened.
#[derive(Debug, PartialEq, Eq)]
struct Count<'a> {
    section: &'a str,
    name: &'a str,
    number: u64,
}

fn parse(text: &str) -> Vec<Count<'_>> {
    let count = |line| {
        let (section, rest) = str::split_once(line, ' ')?;
        let (name, number) = rest.rsplit_once(' ')?;
        Some(Count {
            section,
            name: name.trim(),
            number: number.parse().ok()?,
        })
    };
    text.lines().filter_map(count).collect()
}

/// The report in the requested format, with a newline at its end.
pub fn render(text: &str, format: CountFormat) -> String {
    let counts = parse(text);
    match format {
        CountFormat::Table => table(counts),
        CountFormat::Json => json(&counts),
    }
}

fn json(counts: &[Count]) -> String {
    let mut sections = serde_json::Map::new();
    for count in counts {
        let section = sections
            .entry(count.section)
            .or_insert_with(|| serde_json::json!({}));
        section[count.name] = count.number.into();
    }
    format!("{}\n", serde_json::Value::Object(sections))
}

/// A part of the table for each section, most frequent kinds first, with each kind's share of its
/// section.
fn table(counts: Vec<Count>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    for (section, title) in SECTIONS {
        let part = counts
            .iter()
            .filter(|count| count.section == section && count.number > 0);
        let mut part: Vec<_> = part.collect();
        part.sort_by_key(|count| std::cmp::Reverse(count.number));
        let total: u64 = part.iter().map(|count| count.number).sum();
        if part.is_empty() {
            continue;
        }
        table.add_row(["count", "%", title]);
        for count in &part {
            let share = 100.0 * count.number as f64 / total as f64;
            table.add_row([
                count.number.to_string(),
                format!("{share:.2}"),
                count.name.to_owned(),
            ]);
        }
        table.add_row([&total.to_string(), "", "in all"]);
        table.add_row([""]);
    }
    for column in [0, 1] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::render;
    use crate::options::CountFormat;

    const TEXT: &str = "syscall read 3\nsyscall write 12\nsyscall close 0\nfault anonymous write 85\nnot a count\n";

    #[test]
    fn the_table_is_sorted_within_its_sections() {
        let table = render(TEXT, CountFormat::Table);
        let words: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        let expected: [&[&str]; 9] = [
            &["count", "%", "system", "calls"],
            &["12", "80.00", "write"],
            &["3", "20.00", "read"],
            &["15", "in", "all"],
            &[],
            &["count", "%", "faults"],
            &["85", "100.00", "anonymous", "write"],
            &["85", "in", "all"],
            &[],
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn json_keeps_every_count() {
        let json: serde_json::Value =
            serde_json::from_str(&render(TEXT, CountFormat::Json)).unwrap();
        assert_eq!(json["syscall"]["write"], 12);
        assert_eq!(json["syscall"]["close"], 0);
        assert_eq!(json["fault"]["anonymous write"], 85);
    }
}
