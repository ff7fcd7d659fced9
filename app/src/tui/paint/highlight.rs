//! Highlighting of program text, line by line, in the theme's styles.
//!
//! Loading the languages takes a while, and compiling the rules of one takes a tenth of a second.
//! Both run on other threads: until then program text is plain.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

use ratatui::style::Style;
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use super::flow::{Fragment, add};
use super::theme::Theme;

/// Maximum length of highlighted lines. Longer ones are usually generated, and slow to highlight.
pub(super) const MAX_LINE_BYTES: usize = 1_000;
/// Maximum number of highlighted bytes of one text; the rest is left plain.
const MAX_HIGHLIGHTED_BYTES: usize = 64 * 1024;

/// A selector of a style of a theme.
type Role = fn(&Theme) -> Style;

/// The style of each scope; the first match applies.
const ROLES: &[(&str, Role)] = &[
    ("comment", |t| t.comment),
    ("punctuation.definition.comment", |t| t.comment),
    ("string", |t| t.string),
    ("punctuation.definition.string", |t| t.string),
    ("constant.character.escape", |t| t.number),
    ("constant.numeric", |t| t.number),
    ("constant", |t| t.constant),
    ("keyword.operator.word", |t| t.keyword),
    ("keyword.operator.logical.python", |t| t.keyword),
    ("keyword.operator", |t| t.text),
    ("keyword", |t| t.keyword),
    ("storage.type.numeric", |t| t.number),
    ("storage", |t| t.keyword),
    ("entity.name.function", |t| t.function),
    ("support.function", |t| t.function),
    ("support.macro", |t| t.function),
    ("variable.function", |t| t.function),
    ("entity.name.tag", |t| t.tag),
    ("entity.other.attribute-name", |t| t.key),
    ("meta.mapping.key", |t| t.key),
    ("support.type.property-name", |t| t.key),
    ("entity.name.section", |t| t.heading),
    ("entity.name", |t| t.type_name),
    ("support.class", |t| t.type_name),
    ("support.type", |t| t.type_name),
    ("variable.language", |t| t.constant),
    ("variable.parameter", |t| t.text),
    ("markup.heading", |t| t.heading),
    ("markup.bold", |t| t.strong),
    ("markup.italic", |t| t.emphasis),
    ("markup.inserted", |t| t.added),
    ("markup.deleted", |t| t.removed),
    ("markup.raw", |t| t.code),
];

/// Common names of languages that are missing from the set or have another name there.
const ALIASES: &[(&str, &str)] = &[
    ("typescript", "js"),
    ("ts", "js"),
    ("tsx", "js"),
    ("jsx", "js"),
    ("mjs", "js"),
    ("cjs", "js"),
    ("json5", "json"),
    ("jsonc", "json"),
    ("jsonl", "json"),
    ("shell", "sh"),
    ("console", "sh"),
    ("zsh", "sh"),
    ("fish", "sh"),
    ("ksh", "sh"),
    ("dockerfile", "sh"),
    ("toml", "ini-like"),
    ("ini", "ini-like"),
    ("conf", "ini-like"),
    ("kotlin", "scala"),
    ("kt", "scala"),
    ("swift", "scala"),
    ("dart", "java"),
    ("csharp", "cs"),
    ("golang", "go"),
    ("rust", "rs"),
    ("cxx", "cpp"),
    ("svelte", "html"),
    ("vue", "html"),
    ("scss", "css"),
    ("less", "css"),
    ("sass", "css"),
    ("patch", "diff"),
    ("objectivec", "m"),
    ("postgresql", "sql"),
    ("sqlite", "sql"),
    ("mysql", "sql"),
    ("python3", "py"),
    ("make", "makefile"),
    ("mk", "makefile"),
];

static LANGUAGES: OnceLock<Languages> = OnceLock::new();

struct Languages {
    set: SyntaxSet,
    roles: Vec<(Scope, Role)>,
    /// The readiness of each language of the set.
    ready: Vec<Readiness>,
    /// The number of ready languages.
    count: AtomicUsize,
}

/// The readiness of a language's rules: whether they were requested, and whether they are compiled.
#[derive(Default)]
struct Readiness {
    requested: OnceLock<()>,
    done: OnceLock<()>,
}

/// Samples of common constructs, so that most rules of a language are compiled.
const SAMPLE: &[&str] = &[
    "fn f(a: b, c = 1) -> d { let x = \"e\" + 'f' + 0x1; } // g",
    "def h(i): return j + 2.5 # k",
    "class L extends M { /* n */ public static int o = p[0].q(\"\\n\"); }",
    "<r s=\"t\">u</r> <!-- v --> {\"w\": [true, null]} -- x",
    "if $y == `z`; then echo ${a}; fi",
    "SELECT b FROM c WHERE d = 'e';",
];

/// Starts loading the languages on another thread.
pub(crate) fn warm_up() {
    if LANGUAGES.get().is_none() {
        // Without a thread, program text stays plain.
        let _ = Builder::new().name("languages".into()).spawn(load);
    }
}

/// Returns the number of ready languages. When it grows, earlier layouts are outdated; [`Markdown`]
/// updates its own.
///
/// [`Markdown`]: super::Markdown
pub(crate) fn languages() -> usize {
    LANGUAGES.get().map_or(0, |languages| 1 + languages.count.load(Ordering::Acquire))
}

/// Loads the languages on this thread.
pub(crate) fn load() {
    LANGUAGES.get_or_init(|| {
        let set = SyntaxSet::load_defaults_newlines();
        let roles = ROLES
            .iter()
            .filter_map(|(scope, role)| Some((Scope::new(scope).ok()?, *role)))
            .collect();
        let ready = set.syntaxes().iter().map(|_| Readiness::default()).collect();
        Languages { set, roles, ready, count: AtomicUsize::new(0) }
    });
}

/// Highlights program text of one language, line by line.
#[derive(Clone)]
pub(super) struct Highlighter {
    /// `None` if the text is plain.
    state: Option<(ParseState, ScopeStack)>,
    /// The number of bytes that can still be highlighted.
    left: usize,
}

impl Highlighter {
    /// Creates a highlighter by the info string of a fence, such as `rust`, `py` or `rust,ignore`.
    pub(super) fn new(info: &str) -> Self {
        let info = info.trim_start_matches(['{', '.']);
        let language = info.split([' ', ',', '{', '}', ':', '\t']).next().unwrap_or_default();
        let state = LANGUAGES.get().and_then(|languages| languages.ready(language));
        Highlighter {
            state: state.map(|syntax| (ParseState::new(syntax), ScopeStack::new())),
            left: MAX_HIGHLIGHTED_BYTES,
        }
    }

    /// Creates a highlighter by the name of a file.
    pub(super) fn of_file(path: &str) -> Self {
        let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
        Self::new(name.rsplit('.').next().unwrap_or(name))
    }

    /// Highlights a line, given without its end.
    pub(super) fn line(&mut self, line: &str, theme: &Theme) -> Vec<Fragment> {
        let plain = || vec![Fragment::styled(line.to_owned(), theme.text)];
        if line.len() > MAX_LINE_BYTES {
            return plain();
        }
        let left = self.left.checked_sub(line.len());
        self.left = left.unwrap_or(0);
        match left.and_then(|_| self.tokens(line, theme)) {
            Some(fragments) => fragments,
            None => {
                // The text is too long, has no language, or the language's rules failed and would
                // fail again.
                self.state = None;
                plain()
            }
        }
    }

    fn tokens(&mut self, line: &str, theme: &Theme) -> Option<Vec<Fragment>> {
        let languages = LANGUAGES.get()?;
        let (state, scopes) = self.state.as_mut()?;
        let changes = state.parse_line(&format!("{line}\n"), &languages.set).ok()?;
        let mut fragments = Vec::new();
        let mut from = 0;
        for (at, change) in changes {
            let at = at.min(line.len());
            if at > from {
                add(&mut fragments, line.get(from..at)?, languages.style(scopes, theme));
                from = at;
            }
            scopes.apply(&change).ok()?;
        }
        if from < line.len() {
            add(&mut fragments, line.get(from..)?, languages.style(scopes, theme));
        }
        Some(fragments)
    }
}

impl Languages {
    /// Returns the language if its rules are compiled, else requests them.
    fn ready(&'static self, language: &str) -> Option<&'static SyntaxReference> {
        let syntax = find(&self.set, language)?;
        let readiness =
            self.ready.get(self.set.syntaxes().iter().position(|one| one.name == syntax.name)?)?;
        if readiness.done.get().is_none() {
            self.request(syntax, readiness);
        }
        readiness.done.get().map(|()| syntax)
    }

    /// Compiles the rules of a language on another thread, once. Without a thread its text stays
    /// plain.
    #[cfg(not(test))]
    fn request(&'static self, syntax: &'static SyntaxReference, readiness: &'static Readiness) {
        if readiness.requested.set(()).is_ok() {
            let _ =
                Builder::new().name("language".into()).spawn(|| self.compile(syntax, readiness));
        }
    }

    /// Compiles on this thread, so that tests are reproducible.
    #[cfg(test)]
    fn request(&self, syntax: &SyntaxReference, readiness: &Readiness) {
        let _ = readiness.requested.set(());
        self.compile(syntax, readiness);
    }

    fn compile(&self, syntax: &SyntaxReference, readiness: &Readiness) {
        let mut state = ParseState::new(syntax);
        for line in SAMPLE {
            // Rules that fail here fail again when they are used.
            let _ = state.parse_line(&format!("{line}\n"), &self.set);
        }
        if readiness.done.set(()).is_ok() {
            self.count.fetch_add(1, Ordering::Release);
        }
    }

    fn style(&self, scopes: &ScopeStack, theme: &Theme) -> Style {
        let role =
            |scope: &Scope| self.roles.iter().find(|(prefix, _)| prefix.is_prefix_of(*scope));
        scopes.as_slice().iter().rev().find_map(role).map_or(theme.text, |(_, style)| style(theme))
    }
}

fn find<'a>(set: &'a SyntaxSet, language: &str) -> Option<&'a SyntaxReference> {
    let language = language.to_ascii_lowercase();
    let alias = ALIASES
        .iter()
        .find(|(name, _)| *name == language)
        .map_or(language.as_str(), |(_, alias)| alias);
    // The set has neither TOML nor INI; the rules for `.properties` files are similar.
    let alias = if alias == "ini-like" { "properties" } else { alias };
    set.find_syntax_by_token(alias).filter(|syntax| syntax.name != "Plain Text")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn styles(language: &str, line: &str) -> Vec<(String, Style)> {
        load();
        let fragments = Highlighter::new(language).line(line, &Theme::ansi());
        fragments
            .into_iter()
            .map(|fragment| (fragment.content.into_owned(), fragment.style))
            .collect()
    }

    /// The languages that models write most.
    #[test]
    fn the_usual_languages_are_known() {
        load();
        let set = &LANGUAGES.get().unwrap().set;
        let known = |name: &&str| find(set, name).is_some();
        let usual = [
            "python",
            "rust",
            "bash",
            "javascript",
            "typescript",
            "json",
            "yaml",
            "html",
            "css",
            "sql",
            "java",
            "c",
            "cpp",
            "csharp",
            "go",
            "ruby",
            "php",
            "diff",
            "toml",
            "markdown",
            "kotlin",
            "swift",
            "xml",
            "dockerfile",
            "makefile",
            "tsx",
            "sh",
            "js",
            "py",
            "rs",
        ];
        assert_eq!(usual.iter().filter(|name| !known(name)).collect::<Vec<_>>(), [&""; 0]);
        for unknown in ["", "text", "mermaid", "no such language"] {
            assert!(!known(&unknown), "{unknown}");
        }
    }

    #[test]
    fn tokens_have_their_roles() {
        let theme = Theme::ansi();
        let rust = styles("rust", "fn main() { let x = \"a\"; } // 1");
        for (text, style) in
            [("fn", theme.keyword), ("main", theme.function), ("\"a\"", theme.string)]
        {
            assert!(rust.contains(&(text.to_owned(), style)), "{text}: {rust:?}");
        }
        assert_eq!(rust.last(), Some(&("// 1".to_owned(), theme.comment)));
        let python = styles("py", "def f(x): return x + 42");
        for (text, style) in [("def", theme.keyword), ("f", theme.function), ("42", theme.number)] {
            assert!(python.contains(&(text.to_owned(), style)), "{text}: {python:?}");
        }
        let toml = styles("toml", "name = \"x\"");
        assert!(toml.len() > 1, "{toml:?}");
    }

    #[test]
    fn a_comment_spans_lines_and_the_text_is_never_changed() {
        load();
        let (theme, mut state) = (Theme::ansi(), Highlighter::of_file("src/a.rs"));
        assert_eq!(state.line("/* a", &theme)[0].style, theme.comment);
        let long = "x".repeat(MAX_LINE_BYTES + 1);
        assert_eq!(state.line(&long, &theme), [Fragment::styled(long.clone(), theme.text)]);
        assert_eq!(state.line("b */", &theme)[0].style, theme.comment);
        let mut long = Highlighter::new("rs");
        let coloured = |_: &usize| long.line("let x = 1;", &theme).len() > 1;
        assert_eq!((0..10_000).take_while(coloured).count(), MAX_HIGHLIGHTED_BYTES / 10);
        for line in ["let é = '漢';", "\"unclosed", "}}}", "", "\t \0\u{202e}"] {
            let text: String =
                state.line(line, &theme).iter().map(|fragment| fragment.content.as_ref()).collect();
            assert_eq!(text, line);
        }
    }
}
