//! The crossings of a program, as `/proc/crossings` tells them: lines of section, name and number.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use crate::options::CountFormat;

/// One kind of crossing and how often it was made.
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

/// The report in the format asked for, with a newline at its end.
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

/// The most frequent first within each section, with the section's share of all crossings.
fn table(counts: Vec<Count>) -> String {
    let mut counts: Vec<_> = counts
        .into_iter()
        .filter(|count| count.number > 0)
        .collect();
    let mut sections: Vec<&str> = Vec::new();
    for count in &counts {
        if !sections.contains(&count.section) {
            sections.push(count.section);
        }
    }
    let place = |section| sections.iter().position(|known| *known == section);
    counts.sort_by_key(|count| (place(count.section), std::cmp::Reverse(count.number)));
    let total: u64 = counts.iter().map(|count| count.number).sum();
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(["crossings", "%", "kind", "name"]);
    for count in &counts {
        let share = 100.0 * count.number as f64 / total as f64;
        table.add_row([
            count.number.to_string(),
            format!("{share:.2}"),
            count.section.into(),
            count.name.into(),
        ]);
    }
    table.add_row([
        total.to_string(),
        "100.00".into(),
        "all".into(),
        String::new(),
    ]);
    for column in [0, 1] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: String = table
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect();
    lines
}

#[cfg(test)]
mod tests {
    use super::render;
    use crate::options::CountFormat;

    const TEXT: &str = "syscall read 3\nsyscall write 12\nsyscall close 0\nfault anonymous write 85\nnot a count\n";

    #[test]
    fn the_table_is_sorted_within_its_sections_and_has_a_total() {
        let table = render(TEXT, CountFormat::Table);
        let words: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(words[0], ["crossings", "%", "kind", "name"]);
        assert_eq!(words[1], ["12", "12.00", "syscall", "write"]);
        assert_eq!(words[2], ["3", "3.00", "syscall", "read"]);
        assert_eq!(words[3], ["85", "85.00", "fault", "anonymous", "write"]);
        assert_eq!(words[4], ["100", "100.00", "all"]);
        assert_eq!(words.len(), 5);
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
