//! The tokens of program text, line by line, in the theme's styles.
//!
//! The languages take a while to load, and the rules of each take a tenth of a second when they are
//! first used. Both are done aside: until then program text is plain.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

use ratatui::style::Style;
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use super::flow::{Piece, add};
use super::theme::Theme;

/// Longer lines, in bytes, are left plain: machines write them, and they would take long.
pub(super) const LONGEST: usize = 1_000;
/// After so many bytes of one text the rest is left plain, so that a very long one does not hold up
/// all else.
const MOST: usize = 64 * 1024;

/// The style of something in a theme.
type Role = fn(&Theme) -> Style;

/// The style of what has a scope; the first that fits counts.
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

/// Names that people write, of languages that are not in the set or are there by another name.
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
    /// How far each language of the set is.
    ready: Vec<Readiness>,
    /// How many are ready.
    count: AtomicUsize,
}

/// First it is asked for, then it is there.
#[derive(Default)]
struct Readiness {
    asked: OnceLock<()>,
    there: OnceLock<()>,
}

/// Something of what most languages have, so that most rules of one are compiled.
const SAMPLE: &[&str] = &[
    "fn f(a: b, c = 1) -> d { let x = \"e\" + 'f' + 0x1; } // g",
    "def h(i): return j + 2.5 # k",
    "class L extends M { /* n */ public static int o = p[0].q(\"\\n\"); }",
    "<r s=\"t\">u</r> <!-- v --> {\"w\": [true, null]} -- x",
    "if $y == `z`; then echo ${a}; fi",
    "SELECT b FROM c WHERE d = 'e';",
];

/// Begins to load the languages, on a thread of its own.
pub(crate) fn warm_up() {
    if LANGUAGES.get().is_none() {
        // Without a thread program text stays plain.
        let _ = Builder::new().name("languages".into()).spawn(load);
    }
}

/// How many languages program text can be highlighted in by now. When there are more, what was
/// painted before is to be painted anew; [`Markdown`] does so itself.
///
/// [`Markdown`]: super::Markdown
pub(crate) fn languages() -> usize {
    LANGUAGES.get().map_or(0, |languages| 1 + languages.count.load(Ordering::Acquire))
}

/// Loads the languages, here and now.
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

/// Program text in one language, which is handed over line by line.
#[derive(Clone)]
pub(super) struct Highlighter {
    /// None if it is plain.
    state: Option<(ParseState, ScopeStack)>,
    /// How many bytes are still to be highlighted at most.
    left: usize,
}

impl Highlighter {
    /// For a language by what people write after a fence, such as `rust`, `py` or `rust,ignore`.
    pub(super) fn new(info: &str) -> Self {
        let info = info.trim_start_matches(['{', '.']);
        let language = info.split([' ', ',', '{', '}', ':', '\t']).next().unwrap_or_default();
        let state = LANGUAGES.get().and_then(|languages| languages.ready(language));
        Highlighter {
            state: state.map(|syntax| (ParseState::new(syntax), ScopeStack::new())),
            left: MOST,
        }
    }

    /// For a file of this name.
    pub(super) fn of_file(path: &str) -> Self {
        let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
        Self::new(name.rsplit('.').next().unwrap_or(name))
    }

    /// A line, without its end, in pieces.
    pub(super) fn line(&mut self, line: &str, theme: &Theme) -> Vec<Piece> {
        let plain = || vec![Piece::styled(line.to_owned(), theme.text)];
        if line.len() > LONGEST {
            return plain();
        }
        let left = self.left.checked_sub(line.len());
        self.left = left.unwrap_or(0);
        match left.and_then(|_| self.tokens(line, theme)) {
            Some(pieces) => pieces,
            None => {
                // It is too long, or has no language, or the language's rules fail on this line and
                // would again.
                self.state = None;
                plain()
            }
        }
    }

    fn tokens(&mut self, line: &str, theme: &Theme) -> Option<Vec<Piece>> {
        let languages = LANGUAGES.get()?;
        let (state, scopes) = self.state.as_mut()?;
        let changes = state.parse_line(&format!("{line}\n"), &languages.set).ok()?;
        let (mut pieces, mut from) = (Vec::new(), 0);
        for (at, change) in changes {
            let at = at.min(line.len());
            if at > from {
                add(&mut pieces, line.get(from..at)?, languages.style(scopes, theme));
                from = at;
            }
            scopes.apply(&change).ok()?;
        }
        if from < line.len() {
            add(&mut pieces, line.get(from..)?, languages.style(scopes, theme));
        }
        Some(pieces)
    }
}

impl Languages {
    /// The language, if its rules are there; else they are made.
    fn ready(&'static self, language: &str) -> Option<&'static SyntaxReference> {
        let syntax = find(&self.set, language)?;
        let readiness =
            self.ready.get(self.set.syntaxes().iter().position(|one| one.name == syntax.name)?)?;
        if readiness.there.get().is_none() {
            self.ask(syntax, readiness);
        }
        readiness.there.get().map(|()| syntax)
    }

    /// Has the rules of a language made on a thread of its own, unless they are being made. Without
    /// a thread its text stays plain.
    #[cfg(not(test))]
    fn ask(&'static self, syntax: &'static SyntaxReference, readiness: &'static Readiness) {
        if readiness.asked.set(()).is_ok() {
            let _ = Builder::new().name("language".into()).spawn(|| self.make(syntax, readiness));
        }
    }

    /// The same here and now, so that text looks alike in each run.
    #[cfg(test)]
    fn ask(&self, syntax: &SyntaxReference, readiness: &Readiness) {
        let _ = readiness.asked.set(());
        self.make(syntax, readiness);
    }

    fn make(&self, syntax: &SyntaxReference, readiness: &Readiness) {
        let mut state = ParseState::new(syntax);
        for line in SAMPLE {
            let _ = state.parse_line(&format!("{line}\n"), &self.set); // rules that fail will do so again
        }
        if readiness.there.set(()).is_ok() {
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
    // There is neither TOML nor INI in the set; the rules for `.properties` files are near enough.
    let alias = if alias == "ini-like" { "properties" } else { alias };
    set.find_syntax_by_token(alias).filter(|syntax| syntax.name != "Plain Text")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn styles(language: &str, line: &str) -> Vec<(String, Style)> {
        load();
        let pieces = Highlighter::new(language).line(line, &Theme::ansi());
        pieces.into_iter().map(|piece| (piece.content.into_owned(), piece.style)).collect()
    }

    /// The languages that models write most; all but the last are known, TypeScript as JavaScript.
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
    fn a_comment_goes_on_over_lines_and_the_text_is_never_changed() {
        load();
        let (theme, mut state) = (Theme::ansi(), Highlighter::of_file("src/a.rs"));
        assert_eq!(state.line("/* a", &theme)[0].style, theme.comment);
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(state.line(&long, &theme), [Piece::styled(long.clone(), theme.text)]);
        assert_eq!(state.line("b */", &theme)[0].style, theme.comment);
        let mut long = Highlighter::new("rs");
        let coloured = |_: &usize| long.line("let x = 1;", &theme).len() > 1;
        assert_eq!((0..10_000).take_while(coloured).count(), MOST / 10);
        for line in ["let é = '漢';", "\"unclosed", "}}}", "", "\t \0\u{202e}"] {
            let text: String =
                state.line(line, &theme).iter().map(|piece| piece.content.as_ref()).collect();
            assert_eq!(text, line);
        }
    }
}
