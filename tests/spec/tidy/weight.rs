//! How many crates each part brings with it, and which it leaves out.

use std::collections::BTreeSet;
use std::process::Command;

use super::ROOT;

/// A build that someone may want, and what it may cost.
struct Build {
    package: &'static str,
    features: &'static str,
    max_crates: usize,
    /// Names of crates, or how they begin, that must not be in it.
    without: &'static [&'static str],
}

/// The packages outside the workspace share the builds of the dependencies with it only if they
/// have the same versions.
#[test]
fn the_locks_have_the_same_versions() {
    let versions = |lock: &str| -> BTreeSet<(String, String)> {
        let value = |line: Option<&str>| line.unwrap_or_default().to_owned();
        let packages = lock.split("[[package]]").skip(1).map(str::trim_start).map(str::lines);
        packages.map(|mut lines| (value(lines.next()), value(lines.next()))).collect()
    };
    let main = versions(&super::read("Cargo.lock"));
    for path in ["fuzz/Cargo.lock", "tests/without_schema/Cargo.lock"] {
        let others: Vec<_> = versions(&super::read(path))
            .into_iter()
            .filter(|package| main.iter().any(|(name, _)| *name == package.0))
            .filter(|package| !main.contains(package))
            .collect();
        assert!(others.is_empty(), "{path}: {others:?}; copy Cargo.lock there");
    }
}

const BUILDS: [Build; 4] = [
    Build {
        package: "loopwright-core",
        features: "",
        max_crates: 45,
        without: &["jsonschema", "reqwest", "hyper"],
    },
    Build {
        package: "loopwright-memory",
        features: "jsonl",
        max_crates: 100,
        without: &["rusqlite", "libsqlite3-sys"],
    },
    Build {
        package: "loopwright-server",
        features: "",
        max_crates: 120,
        without: &["rusqlite", "libsqlite3-sys"],
    },
    Build {
        package: "loopwright-tools",
        features: "",
        max_crates: 120,
        without: &["landlock", "seccompiler", "grep-"],
    },
];

/// The crates of a build on this machine, the package itself among them, each as `name version`.
fn crates(package: &str, features: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .args(["--no-default-features", "--package", package, "--features", features])
        .current_dir(ROOT)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let name_and_version = |line: &str| {
        let words: Vec<&str> = line.split(' ').take(2).collect();
        words.join(" ")
    };
    text.lines().filter(|line| !line.is_empty()).map(name_and_version).collect()
}

/// Nobody compiles what they do not use: a part without its default features is small.
#[test]
fn a_part_without_its_features_brings_few_crates() {
    let mut failed = String::new();
    for Build { package, features, max_crates, without } in BUILDS {
        let crates = crates(package, features);
        println!("{package} with features [{features}]: {} of {max_crates} crates", crates.len());
        if crates.len() > max_crates {
            let names: Vec<_> = crates.iter().map(String::as_str).collect();
            failed += &format!(
                "{package} [{features}]: {} crates, at most {max_crates}: {}\n",
                crates.len(),
                names.join(", ")
            );
        }
        for name in &crates {
            if without.iter().any(|unwanted| name.starts_with(unwanted)) {
                failed += &format!("{package} [{features}] brings {name}\n");
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
}
