//! The check of the report's page in `stile test`: a browser shows it, light and dark, wide and
//! narrow, and reports no error.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::html;
use super::report::Report;
use super::result::{Column, Failure, Head, Row};
use crate::project::{Project, find_program};

/// The names of supported browsers.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// The checks that the page makes after it is shown. Its messages go to the browser's log.
const SCRIPT: &str = "<script>addEventListener('load', () => {
    const page = document.documentElement;
    if (page.scrollWidth > page.clientWidth) console.error(`overflows: ${page.scrollWidth} of ${page.clientWidth}`);
    const ground = getComputedStyle(document.body).backgroundColor;
    console.log(`looked at: ${page.clientWidth} ${ground}`);
})</script></body>";

/// A way to show the page.
struct View {
    width: u32,
    dark: bool,
}

impl View {
    const ALL: [Self; 4] = [
        Self {
            width: 1280,
            dark: false,
        },
        Self {
            width: 1280,
            dark: true,
        },
        Self {
            width: 360,
            dark: false,
        },
        Self {
            width: 360,
            dark: true,
        },
    ];

    fn name(&self) -> String {
        format!(
            "{}-{}",
            self.width,
            if self.dark { "dark" } else { "light" }
        )
    }

    /// The expected message of the page in this view: its width and its background, as in
    /// report.css.
    fn looked_at(&self) -> String {
        let ground = if self.dark {
            "rgb(20, 23, 26)"
        } else {
            "rgb(255, 255, 255)"
        };
        format!("looked at: {} {ground}", self.width)
    }
}

/// A browser on this machine.
pub fn browser() -> Option<PathBuf> {
    BROWSERS.iter().find_map(find_program)
}

/// Shows the page in all ways; returns the problems, if any.
pub fn check(project: &Project, browser: &Path) -> Result<Option<String>> {
    let folder = project.target.join("bench-page");
    fs::create_dir_all(&folder)?;
    let page = html::render(&sample()).replace("</body>", SCRIPT);
    fs::write(folder.join("report.html"), page)?;
    for view in View::ALL {
        if let Some(complaint) = complaint(browser, &folder, &view)? {
            return Ok(Some(format!("{}: {complaint}", view.name())));
        }
    }
    Ok(None)
}

/// Shows it in one way, in a frame, since no browser's window is as narrow as a telephone.
fn complaint(browser: &Path, folder: &Path, view: &View) -> Result<Option<String>> {
    let frame = folder.join(format!("{}.html", view.name()));
    let width = view.width;
    fs::write(
        &frame,
        format!(
            "<!DOCTYPE html><body style='margin: 0'>\
             <iframe src='report.html' style='border: 0; width: {width}px; height: 2400px'></iframe>"
        ),
    )?;
    let picture = frame.with_extension("png");
    let _ = fs::remove_file(&picture);
    let said = show(browser, &frame, &picture, view.dark)?;
    let says = |text: &str| {
        said.lines()
            .any(|line| line.contains("CONSOLE") && line.contains(text))
    };
    let other = said
        .lines()
        .find(|line| line.contains("CONSOLE") && !line.contains("looked at: "));
    if let Some(line) = other {
        return Ok(Some(line.into()));
    }
    if !says(&view.looked_at()) {
        return Ok(Some(format!(
            "it did not say '{}':\n{said}",
            view.looked_at()
        )));
    }
    let empty = fs::metadata(&picture).map_or(0, |picture| picture.len()) < 1000;
    Ok(empty.then(|| "no picture".into()))
}

/// Runs the browser; returns its messages.
fn show(browser: &Path, page: &Path, picture: &Path, dark: bool) -> Result<String> {
    // Blink's PreferredColorScheme: dark is 0, light is 1.
    let scheme = if dark { 0 } else { 1 };
    let output = Command::new(browser)
        .args([
            "--headless",
            "--disable-gpu",
            "--no-sandbox",
            "--hide-scrollbars",
        ])
        .args(["--disable-dev-shm-usage", "--enable-logging=stderr"])
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg("--window-size=1280,2400")
        .arg(format!("--screenshot={}", picture.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .with_context(|| browser.display().to_string())?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A report with every feature.
fn sample() -> Report {
    let head = Head {
        id: "sample".into(),
        title: "A <table> & its \"rows\", with a title that is long enough to need two lines on a telephone".into(),
        unit: "instructions an operation".into(),
        note: "A note.".into(),
        ratios: true,
        mean: true,
        ..Head::default()
    };
    let column = |label: &str, values: [Option<f64>; 3]| Column {
        head: head.clone(),
        label: label.into(),
        kernel: "Linux 6.12".into(),
        commands: vec![
            "qemu-system-aarch64 -accel tcg,thread=single -icount shift=0,sleep=off ".repeat(5),
        ],
        failure: values[2].is_none().then(|| Failure {
            reason: "panicked".into(),
            console: "Kernel panic - not syncing: ".repeat(9),
        }),
        rows: std::iter::zip(
            [
                "null_call",
                "fork_exit_wait_with_a_long_name",
                "mmap_munmap",
            ],
            values,
        )
        .map(|(name, value)| Row {
            value,
            ..Row::new(name, "its window", 0.0)
        })
        .collect(),
    };
    Report::new(vec![
        column(
            "stile fence.kernel=preventive fence.user=preventive",
            [Some(80.0), Some(20_000.0), Some(1_500.0)],
        ),
        column("linux-6.1", [Some(302.0), Some(81_841.0), Some(9_561.0)]),
        column(
            "linux-6.1 lean",
            [Some(302.0), Some(181_841_000.0), Some(9_561.0)],
        ),
        column("linux-6.12", [Some(302.0), Some(81_841.0), Some(9_561.0)]),
        column(
            "linux-6.12 lean",
            [Some(302.0), Some(81_841.0), Some(9_561.0)],
        ),
        column(
            "a-folder/with-a-long-name/arch/arm64/boot/Image",
            [Some(302.0), None, None],
        ),
    ])
}
