//! Bars as SVG, coloured by the page's style sheet.

use maud::{Markup, html};

/// The height of one bar and the space for a group's name, in the picture's units.
const BAR: f64 = 14.0;
const NAME: f64 = 20.0;
const GAP: f64 = 10.0;
/// The widths of the bars' field and of the figures beside it.
const FIELD: f64 = 520.0;
const FIGURE: f64 = 150.0;

/// A bar: its colour, its length as a share of the field, and the text beside it.
pub struct Bar {
    pub colour: usize,
    pub share: f64,
    pub text: String,
}

/// Bars under a common name.
pub struct Group {
    pub name: String,
    pub bars: Vec<Bar>,
}

/// Groups of bars, one under the other; `title` is read out where there is no picture.
pub fn bars(title: &str, groups: &[Group]) -> Markup {
    let height = |group: &Group| NAME + BAR * group.bars.len() as f64 + GAP;
    let total: f64 = groups.iter().map(height).sum();
    let mut top = 0.0;
    html! {
        svg viewBox=(format!("0 0 {} {total}", FIELD + FIGURE)) role="img" {
            title { (title) }
            @for group in groups {
                text.name x="0" y=(top + NAME - 6.0) { (group.name) }
                @for (place, bar) in group.bars.iter().enumerate() {
                    @let y = top + NAME + BAR * place as f64;
                    @let width = (bar.share * FIELD).max(1.0);
                    rect class=(format!("c{}", bar.colour)) x="0" y=(y) width=(format!("{width:.1}")) height=(BAR - 2.0) rx="2" {}
                    text.figure x=(format!("{:.1}", width + 6.0)) y=(y + BAR - 4.0) { (bar.text) }
                }
                ({ top += height(group); "" })
            }
        }
    }
}
