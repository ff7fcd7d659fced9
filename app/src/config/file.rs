//! A `loopwright.toml`: its settings with their lines, or an error with file and line.

use std::path::Path;
use std::sync::Arc;

use loopwright_mcp::ServerConfig;
use serde::Deserialize;
use serde_json::Value;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::keys::Key;
use super::layer::{Layer, Origin};
use crate::error::StartError;
use crate::program::Program;

/// The author of a file.
#[derive(Debug, Clone, Copy)]
pub(super) enum Owner<'a> {
    /// The user, in their own settings file.
    User,
    /// The author of the project. Errors name the user's own file.
    Project { users_file: Option<&'a Path> },
}

/// Reads the settings in the text of a file.
///
/// # Errors
///
/// Fails on invalid TOML, on an unknown setting, on an invalid value, and on a setting that this
/// owner may not set. The error names file and line.
pub(super) fn read(
    text: &str,
    path: &Path,
    owner: Owner<'_>,
    program: &Program,
) -> Result<Layer, StartError> {
    let file = File { text, path, owner, program };
    let table = DeTable::parse(text).map_err(|why| {
        let at = why.span().map_or(0, |span| span.start);
        file.wrong(at, &format!("invalid TOML: {}", why.message().replace('\n', ", ")))
    })?;
    let mut layer = Layer::default();
    file.table(table.into_inner(), "", &mut layer)?;
    Ok(layer)
}

struct File<'a> {
    text: &'a str,
    path: &'a Path,
    owner: Owner<'a>,
    program: &'a Program,
}

impl File<'_> {
    fn table(&self, table: DeTable<'_>, prefix: &str, layer: &mut Layer) -> Result<(), StartError> {
        let mut entries: Vec<_> = table.into_iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start); // in the order of the file
        for (name, value) in entries {
            let at = name.span().start;
            let name = format!("{prefix}{}", name.into_inner());
            if name == "serve" {
                let DeValue::Table(table) = value.into_inner() else {
                    let why = "`serve` must be a table: write [serve] on a separate line, and \
                               its settings below.";
                    return Err(self.wrong(at, why));
                };
                self.table(table, "serve.", layer)?;
                continue;
            }
            if name == "mcp" {
                self.servers(value.into_inner(), at, layer)?;
                continue;
            }
            let Some(key) = self.program.keys().find(|key| key.name == name) else {
                return Err(self.wrong(at, &unknown(&name, self.program)));
            };
            if let (Some(risk), Owner::Project { users_file }) = (key.risk, self.owner) {
                return Err(self.wrong(at, &not_allowed(&key, risk, users_file)));
            }
            if ["readable", "writable", "unconfined"].contains(&&*key.name)
                && is_contradiction(layer, &key, value.get_ref())
            {
                let why = "`unconfined` commands can read and write everything that you can: \
                           remove either `unconfined`, or `readable` and `writable`.";
                return Err(self.wrong(at, why));
            }
            let kind = value.get_ref().type_str();
            let read = Value::deserialize(ValueDeserializer::from(value)).ok();
            let Some(value) = read.and_then(|value| key.kind.read(&value, self.path.parent()))
            else {
                let allowed = key.kind.allowed();
                let why = format!(
                    "`{name}` must be {allowed}, and not this {kind}. Correct or remove it."
                );
                return Err(self.wrong(at, &why));
            };
            if key.name == "guard"
                && value == Value::Bool(false)
                && matches!(self.owner, Owner::Project { .. })
            {
                let why = "a project's file may switch `guard` on but not off. Remove the \
                           setting; `--guard=false` switches it off.";
                return Err(self.wrong(at, why));
            }
            layer.set(
                &key,
                value,
                Origin::File { path: Arc::from(self.path), line: self.line(at) },
            );
        }
        Ok(())
    }

    /// Reads the MCP servers, each a table `[mcp.NAME]`.
    fn servers(&self, value: DeValue<'_>, at: usize, layer: &mut Layer) -> Result<(), StartError> {
        let DeValue::Table(table) = value else {
            let why = "`mcp` must be a table of servers: write [mcp.NAME] on a separate line, and \
                       the settings of the server below.";
            return Err(self.wrong(at, why));
        };
        for (name, value) in table {
            let (at, name) = (name.span().start, name.into_inner());
            let settings = Value::deserialize(ValueDeserializer::from(value));
            let settings = settings.map_err(|why| self.wrong(at, &why.to_string()))?;
            let server = ServerConfig::read(&name, &settings);
            layer.servers.push(server.map_err(|why| self.wrong(at, &format!("{why}.")))?);
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

/// Returns whether the setting contradicts the layer: unconfined commands cannot have exceptions to
/// their confinement. The flags exclude each other too.
fn is_contradiction(layer: &Layer, key: &Key<'_>, value: &DeValue<'_>) -> bool {
    match &*key.name {
        "unconfined" => {
            value.as_bool() == Some(true)
                && ["readable", "writable"].iter().any(|key| layer.has(key))
        }
        _ => layer.value("unconfined") == Some(true),
    }
}

/// Returns the error for an unknown setting.
fn unknown(name: &str, program: &Program) -> String {
    let lower = name.to_lowercase();
    if ["key", "token", "secret", "password"].iter().any(|word| lower.contains(word)) {
        return format!(
            "there is no setting `{name}`: keys do not belong in this file. Put them into the \
             environment, for example as OPENAI_API_KEY."
        );
    }
    let keys: Vec<Key<'_>> = program.keys().collect();
    let names: Vec<&str> = keys.iter().map(|key| &*key.name).collect();
    let asked = lower.replace('-', "_");
    match similar::get_close_matches(&*asked, &names, 1, 0.6).first() {
        Some(near) => format!("there is no setting `{name}`; did you mean `{near}`?"),
        None => format!("there is no setting `{name}`. There are: {}.", names.join(", ")),
    }
}

/// Returns the error for a setting that a project's file may not contain.
fn not_allowed(key: &Key<'_>, risk: &str, users_file: Option<&Path>) -> String {
    let file = users_file.map_or_else(
        || "your own file with settings".into(),
        |file| format!("your own file, {},", file.display()),
    );
    format!(
        "a project's file may not set `{}`, because it decides {risk}. If you want it, put it \
         into {file} or give {}; `--no-config` starts without these files.",
        key.name,
        key.flag()
    )
}

#[cfg(test)]
mod tests {
    use loopwright_host::CustomSetting;

    use super::super::keys::built_in_keys;
    use super::*;
    use crate::options::SESSION;

    fn program() -> Program {
        let settings = vec![
            CustomSetting::number("max-amount", "The largest payment"),
            CustomSetting::choice("region", "The region to search", ["eu", "us"]),
        ];
        Program { settings, ..Program::default() }
    }

    fn read(text: &str, path: &Path, owner: Owner<'_>) -> Result<Layer, StartError> {
        super::read(text, path, owner, &program())
    }

    fn error(text: &str, owner: Owner<'_>) -> String {
        read(text, Path::new("/p/loopwright.toml"), owner).unwrap_err().0
    }

    /// C303: a setting of the app is in the user's file, with `_` for `-`, and has its type.
    #[test]
    fn the_users_file_has_the_apps_own_settings() {
        let path = Path::new("/p/loopwright.toml");
        let layer = read("max_amount = 7\nregion = \"us\"", path, Owner::User).unwrap();
        let custom = layer.settings(SESSION).unwrap().custom;
        let expected = [("max-amount", Value::from(7)), ("region", "us".into())];
        assert_eq!(custom, expected.map(|(name, value)| (name.to_owned(), value)).into());
    }

    #[test]
    fn errors_name_file_line_and_what_to_do() {
        for (text, expected) in [
            (
                "model = \"a/b\"\nmax-turn = 3",
                "/p/loopwright.toml:2: there is no setting `max-turn`; did you mean `max_turns`?",
            ),
            ("zzz = 1", ":1: there is no setting `zzz`. There are: agent, model, base_url, "),
            (
                "\n\nmax_turns = \"3\"",
                ":3: `max_turns` must be a whole number from 1 to 4294967295, and not this string.",
            ),
            (
                "thinking = \"hard\"",
                ":1: `thinking` must be one of: off, minimal, low, medium, high, xhigh, and not \
                 this string.",
            ),
            ("[serve]\naddr = \"here\"", ":2: `serve.addr` must be an address and a port"),
            (
                "[serve]\nadr = \"here\"",
                ":2: there is no setting `serve.adr`; did you mean `serve.addr`?",
            ),
            ("mcp = 1", ":1: `mcp` must be a table of servers"),
            (
                "[mcp.a]\ncommand = \"x\"\n[mcp.b]\nargs = [\"x\"]",
                ":3: the MCP server `b`: it needs `command` or `url`.",
            ),
            (
                "[mcp.a]\ncommand = \"x\"\nenv = [\"KEY=sk-x\"]",
                "lists the names of variables, and not their values",
            ),
            ("serve = 1", ":1: `serve` must be a table: write [serve]"),
            ("unconfined = true\nreadable = [\"/a\"]", ":2: `unconfined` commands can read"),
            ("writable = \"/a\"\nunconfined = true", ":2: `unconfined` commands can read"),
            ("[agents]\nx = 1", ":1: there is no setting `agents`"),
            (
                "openai_api_key = \"sk-x\"",
                ":1: there is no setting `openai_api_key`: keys do not belong in this file.",
            ),
            ("model = \"a/b\"\nmodel = \"c/d\"", ":2: invalid TOML: duplicate key"),
            ("max_turns = 1979-05-27", ":1: `max_turns` must be a whole number"),
            ("region = \"mars\"", ":1: `region` must be one of: eu, us, and not this string."),
            ("max_amonut = 7", ":1: there is no setting `max_amonut`; did you mean `max_amount`?"),
        ] {
            let why = error(text, Owner::User);
            assert!(
                why.contains(expected) && !why.contains('\n') && !why.contains("sk-x"),
                "{text:?}: {why}"
            );
        }
    }

    #[test]
    fn the_example_of_the_documentation_is_valid() {
        let page = include_str!("../../../docs/guide/src/config.md");
        let block =
            page.split("```toml\n").skip(1).find(|block| block.contains("[serve]")).unwrap();
        let layer =
            read(block.split("```").next().unwrap(), Path::new("/p/loopwright.toml"), Owner::User)
                .unwrap();
        assert!(layer.has("approve") && layer.has("serve.max_runs"));
        read(
            "unconfined = false\nreadable = [\"/a\"]",
            Path::new("/p/loopwright.toml"),
            Owner::User,
        )
        .unwrap();
    }

    /// C115: a project's `loopwright.toml` can give away neither rights nor keys: each such setting
    /// is an error that names file and line and where the user may set it.
    #[test]
    fn a_project_cannot_grant_rights() {
        let of_projects = || built_in_keys().filter(|key| key.risk.is_none());
        let allowed: Vec<String> = of_projects().map(|key| key.name.into()).collect();
        let known = [
            "system",
            "no_agents_md",
            "no_questions",
            "thinking",
            "pattern",
            "tool_choice",
            "max_turns",
            "wrap_up",
            "loop_guard",
            "todos",
            "guard",
        ];
        assert_eq!(allowed, known, "consider the risk before projects may set more");
        let own = Path::new("/home/me/.config/loopwright/loopwright.toml");
        let program = program();
        for key in program.keys().filter(|key| key.risk.is_some()) {
            let text = format!("max_turns = 3\n{} = true", key.name);
            let why = error(&text, Owner::Project { users_file: Some(own) });
            let expected =
                format!("/p/loopwright.toml:2: a project's file may not set `{}`", key.name);
            assert!(
                why.starts_with(&expected)
                    && why.contains("/home/me/.config")
                    && why.contains(&key.flag()),
                "{why}"
            );
        }
        for key in of_projects() {
            let why = error(&format!("{} = []", key.name), Owner::Project { users_file: None });
            assert!(why.contains("must be"), "{why}");
        }
        let why = error("guard = false", Owner::Project { users_file: None });
        assert!(
            why.starts_with(
                "/p/loopwright.toml:1: a project's file may switch `guard` on but not off"
            ),
            "{why}"
        );
        for (text, owner) in
            [("guard = true", Owner::Project { users_file: None }), ("guard = false", Owner::User)]
        {
            assert!(read(text, Path::new("/p/loopwright.toml"), owner).unwrap().has("guard"));
        }
        assert!(
            error("headers = {}", Owner::Project { users_file: None })
                .contains("there is no setting")
        );
    }
}
