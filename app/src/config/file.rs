//! One `loopwright.toml`: its settings with their lines, or the sentence that says what is wrong
//! with it.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::keys::{KEYS, Key};
use super::{Layer, Source};
use crate::agent::StartError;

/// Whose a file is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Whose<'a> {
    /// The user's own.
    User,
    /// That of whoever wrote the project; the user's own is said to be here.
    Project { own: Option<&'a Path> },
}

/// The settings in the text of a file.
pub(super) fn read(text: &str, path: &Path, whose: Whose<'_>) -> Result<Layer, StartError> {
    let file = File { text, path, whose };
    let table = DeTable::parse(text).map_err(|why| {
        let at = why.span().map_or(0, |span| span.start);
        file.wrong(at, &format!("this is no TOML: {}", why.message().replace('\n', ", ")))
    })?;
    let mut layer = Layer::default();
    file.table(table.into_inner(), "", &mut layer)?;
    Ok(layer)
}

struct File<'a> {
    text: &'a str,
    path: &'a Path,
    whose: Whose<'a>,
}

impl File<'_> {
    fn table(&self, table: DeTable<'_>, prefix: &str, layer: &mut Layer) -> Result<(), StartError> {
        let mut entries: Vec<_> = table.into_iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start); // as they are written
        for (name, value) in entries {
            let at = name.span().start;
            let name = format!("{prefix}{}", name.into_inner());
            if name == "serve" {
                let DeValue::Table(table) = value.into_inner() else {
                    let why = "`serve` must be a table: write [serve] on a line of its own, and its settings below.";
                    return Err(self.wrong(at, why));
                };
                self.table(table, "serve.", layer)?;
                continue;
            }
            let Some(key) = KEYS.iter().find(|key| key.name == name) else {
                return Err(self.wrong(at, &unknown(&name)));
            };
            if let (Some(risk), Whose::Project { own }) = (key.risk, self.whose) {
                return Err(self.wrong(at, &not_here(key, risk, own)));
            }
            if ["readable", "writable", "unconfined"].contains(&key.name)
                && both(layer, key, value.get_ref())
            {
                let why = "commands that are `unconfined` can read and write all that you can: leave that out, or \
                           `readable` and `writable`.";
                return Err(self.wrong(at, why));
            }
            let kind = value.get_ref().type_str();
            let read = Value::deserialize(ValueDeserializer::from(value)).ok();
            let Some(value) = read.and_then(|value| key.kind.read(&value, self.path.parent()))
            else {
                let allowed = key.kind.allowed();
                let why = format!(
                    "`{name}` must be {allowed}. This {kind} is not. Correct it, or leave it out."
                );
                return Err(self.wrong(at, &why));
            };
            if key.name == "guard"
                && value == Value::Bool(false)
                && matches!(self.whose, Whose::Project { .. })
            {
                let why = "a project's file may switch `guard` on and not off, since whoever wrote the project is not you. \
                           Leave it out; `--guard=false` switches it off.";
                return Err(self.wrong(at, why));
            }
            layer.set(key, value, Source::File { path: Arc::from(self.path), line: self.line(at) });
        }
        Ok(())
    }

    fn line(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count()
    }

    fn wrong(&self, at: usize, what: &str) -> StartError {
        StartError(format!("{}:{}: {what}", self.path.display(), self.line(at)))
    }
}

/// Whether commands would be unconfined and confined with exceptions, as flags cannot say either.
fn both(layer: &Layer, key: &Key, value: &DeValue<'_>) -> bool {
    match key.name {
        "unconfined" => {
            value.as_bool() == Some(true)
                && ["readable", "writable"].iter().any(|key| layer.has(key))
        }
        _ => layer.value("unconfined") == Some(true),
    }
}

/// What is said of a name that no setting has.
fn unknown(name: &str) -> String {
    let lower = name.to_lowercase();
    if ["key", "token", "secret", "password"].iter().any(|word| lower.contains(word)) {
        return format!(
            "there is no setting `{name}`: keys do not belong into this file. Put them into the environment, such as \
             OPENAI_API_KEY."
        );
    }
    let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
    let asked = lower.replace('-', "_");
    match similar::get_close_matches(&*asked, &names, 1, 0.6).first() {
        Some(near) => format!("there is no setting `{name}`; did you mean `{near}`?"),
        None => format!("there is no setting `{name}`. There are: {}.", names.join(", ")),
    }
}

/// What is said of a setting that a project's file may not have.
fn not_here(key: &Key, risk: &str, own: Option<&Path>) -> String {
    let file = own.map_or_else(
        || "your own loopwright.toml".into(),
        |own| format!("your own file, {},", own.display()),
    );
    format!(
        "a project's file may not set `{}`, since it decides {risk}, and whoever wrote the project is not you. If you want \
         it, put it into {file} or give {}; `--no-config` starts without these files.",
        key.name,
        key.flag()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, whose: Whose<'_>) -> String {
        read(text, Path::new("/p/loopwright.toml"), whose).unwrap_err().0
    }

    #[test]
    fn errors_name_file_line_and_what_to_do() {
        for (text, says) in [
            (
                "model = \"a/b\"\nmax-turn = 3",
                "/p/loopwright.toml:2: there is no setting `max-turn`; did you mean `max_turns`?",
            ),
            ("zzz = 1", ":1: there is no setting `zzz`. There are: model, base_url, "),
            (
                "\n\nmax_turns = \"3\"",
                ":3: `max_turns` must be a whole number from 1 to 4294967295. This string is not.",
            ),
            (
                "thinking = \"hard\"",
                ":1: `thinking` must be one of: off, minimal, low, medium, high, xhigh.",
            ),
            ("[serve]\naddr = \"here\"", ":2: `serve.addr` must be an address and a port"),
            (
                "[serve]\nadr = \"here\"",
                ":2: there is no setting `serve.adr`; did you mean `serve.addr`?",
            ),
            ("serve = 1", ":1: `serve` must be a table: write [serve]"),
            (
                "unconfined = true\nreadable = [\"/a\"]",
                ":2: commands that are `unconfined` can read",
            ),
            ("writable = \"/a\"\nunconfined = true", ":2: commands that are `unconfined` can read"),
            ("[agents]\nx = 1", ":1: there is no setting `agents`"),
            (
                "openai_api_key = \"sk-x\"",
                ":1: there is no setting `openai_api_key`: keys do not belong into this file.",
            ),
            ("model = \"a/b\"\nmodel = \"c/d\"", ":2: this is no TOML: duplicate key"),
            ("max_turns = 1979-05-27", ":1: `max_turns` must be a whole number"),
        ] {
            let why = told(text, Whose::User);
            assert!(
                why.contains(says) && !why.contains('\n') && !why.contains("sk-x"),
                "{text:?}: {why}"
            );
        }
    }

    #[test]
    fn the_example_of_the_documentation_is_valid() {
        let page = include_str!("../../../docs/config.md");
        let block =
            page.split("```toml\n").skip(1).find(|block| block.contains("[serve]")).unwrap();
        let layer =
            read(block.split("```").next().unwrap(), Path::new("/p/loopwright.toml"), Whose::User)
                .unwrap();
        assert!(layer.has("approve") && layer.has("serve.max_runs"));
        read(
            "unconfined = false\nreadable = [\"/a\"]",
            Path::new("/p/loopwright.toml"),
            Whose::User,
        )
        .unwrap();
    }

    /// C114: a project's `loopwright.toml` can give away neither rights nor keys: each such setting
    /// is an error that names file and line and the place where the user may put it.
    #[test]
    fn a_project_gives_nothing_away() {
        let may: Vec<&str> =
            KEYS.iter().filter(|key| key.risk.is_none()).map(|key| key.name).collect();
        let known =
            ["system", "no_agents_md", "thinking", "pattern", "tool_choice", "max_turns", "guard"];
        assert_eq!(may, known, "whoever lets projects set more thinks about it here");
        let own = Path::new("/home/me/.config/loopwright/loopwright.toml");
        for key in KEYS.iter().filter(|key| key.risk.is_some()) {
            let text = format!("max_turns = 3\n{} = true", key.name);
            let why = told(&text, Whose::Project { own: Some(own) });
            let says = format!("/p/loopwright.toml:2: a project's file may not set `{}`", key.name);
            assert!(
                why.starts_with(&says)
                    && why.contains("/home/me/.config")
                    && why.contains(&key.flag()),
                "{why}"
            );
        }
        for key in KEYS.iter().filter(|key| key.risk.is_none()) {
            let why = told(&format!("{} = []", key.name), Whose::Project { own: None });
            assert!(why.contains("must be"), "{why}");
        }
        let why = told("guard = false", Whose::Project { own: None });
        assert!(
            why.starts_with(
                "/p/loopwright.toml:1: a project's file may switch `guard` on and not off"
            ),
            "{why}"
        );
        for (text, whose) in
            [("guard = true", Whose::Project { own: None }), ("guard = false", Whose::User)]
        {
            assert!(read(text, Path::new("/p/loopwright.toml"), whose).unwrap().has("guard"));
        }
        assert!(told("headers = {}", Whose::Project { own: None }).contains("there is no setting"));
    }
}
