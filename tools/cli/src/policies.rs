//! The policies that `--set` can choose, each a boot parameter of the kernel
//! (docs/architecture.md).

use anyhow::{Result, bail};

/// A policy and its values, the default first.
const POLICIES: [(&str, &[&str]); 7] = [
    ("entry", &["svc-first", "switch", "table"]),
    ("idreg", &["direct", "locked"]),
    ("hwaf", &["cached", "reread"]),
    ("contpte", &["on", "off"]),
    ("fence.kernel", &["lazy", "preventive"]),
    ("fence.user", &["auto", "svvptc", "preventive"]),
    ("affinity", &["index", "scan"]),
];

/// A policy that takes a number instead of one of a few names.
const INJECT: &str = "fence.inject";

/// Checks a `POLICY=VALUE`; the error lists the existing ones.
pub fn check(setting: &str) -> Result<()> {
    if let Some((policy, value)) = setting.split_once('=') {
        let known = POLICIES
            .iter()
            .any(|(name, values)| *name == policy && values.contains(&value));
        if known || (policy == INJECT && value.parse::<u64>().is_ok()) {
            return Ok(());
        }
    }
    let list: String = POLICIES
        .iter()
        .map(|(name, values)| format!("\n  {name}={}", values.join("|")))
        .collect();
    bail!("--set {setting}: there are{list}\n  {INJECT}=SEED")
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn unknown_settings_are_refused_with_the_known_ones() {
        assert!(check("idreg=locked").is_ok());
        assert!(check("fence.inject=7").is_ok());
        for wrong in ["idreg=fast", "idreg", "colour=red", "fence.inject=x"] {
            let error = check(wrong).unwrap_err().to_string();
            assert!(error.contains("entry=svc-first|switch|table"), "{error}");
        }
    }
}
