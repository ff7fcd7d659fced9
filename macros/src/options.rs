//! The options of `#[tool]`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Ident, Lit, Meta, Result, Token};

/// The options, for the error about an unknown one.
const OPTIONS: &str = "read_only, idempotent, at_most_once, approval, timeout, idle_timeout, \
                       sequential, uninterruptible, name, title, description";

/// The options of a tool.
#[derive(Default)]
pub(crate) struct ToolOptions {
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    /// The method calls on the `ToolSpec`, such as `.sequential()`.
    pub(crate) changes: Vec<TokenStream>,
    /// The typed rule for approvals.
    pub(crate) rule: Option<Expr>,
}

impl Parse for ToolOptions {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = ToolOptions::default();
        let mut names: Vec<String> = Vec::new();
        for meta in input.parse_terminated(Meta::parse, Token![,])? {
            let name = meta.path().get_ident().map(Ident::to_string).unwrap_or_default();
            // Only one of each kind: two effects contradict each other, like two time limits.
            let kind = if is_effect(&name) { "an effect" } else { &*name };
            if names.iter().any(|known| known == kind) {
                let text = match kind == name {
                    true => format!("`{name}` is set twice; remove one"),
                    false => "a tool has one effect; remove the others".to_owned(),
                };
                return Err(Error::new_spanned(meta, text));
            }
            names.push(kind.to_owned());
            options.set(&name, &meta)?;
        }
        Ok(options)
    }
}

fn is_effect(name: &str) -> bool {
    ["read_only", "idempotent", "at_most_once"].contains(&name)
}

impl ToolOptions {
    fn set(&mut self, name: &str, meta: &Meta) -> Result<()> {
        let change = match name {
            "read_only" => flag(meta, quote!(.effect(::loopwright::tool::Effect::ReadOnly)))?,
            "idempotent" => flag(meta, quote!(.effect(::loopwright::tool::Effect::Idempotent)))?,
            "at_most_once" => flag(meta, quote!(.effect(::loopwright::tool::Effect::AtMostOnce)))?,
            "sequential" => flag(meta, quote!(.sequential()))?,
            "uninterruptible" => flag(meta, quote!(.uninterruptible()))?,
            "timeout" => {
                let time = duration(meta)?;
                quote!(.timeout(#time))
            }
            "idle_timeout" => {
                let time = duration(meta)?;
                quote!(.idle_timeout(#time))
            }
            "title" => {
                let title = text(meta, "a title")?;
                quote!(.title(#title))
            }
            "approval" => match value(meta, APPROVAL)? {
                Expr::Path(path) if path.path.is_ident("always") => {
                    quote!(.approval(::loopwright::tool::Approval::Always))
                }
                Expr::Path(path) if path.path.is_ident("never") => {
                    quote!(.approval(::loopwright::tool::Approval::Never))
                }
                Expr::Lit(literal) => return Err(Error::new_spanned(literal, APPROVAL)),
                rule => {
                    self.rule = Some(rule.clone());
                    return Ok(());
                }
            },
            "name" => {
                let name = text(meta, "a name")?;
                check_name(&name, meta.span())?;
                self.name = Some(name);
                return Ok(());
            }
            "description" => {
                self.description = Some(text(meta, "a description")?);
                return Ok(());
            }
            _ => {
                let text = format!("there is no such option; the options are {OPTIONS}");
                return Err(Error::new_spanned(meta.path(), text));
            }
        };
        self.changes.push(change);
        Ok(())
    }
}

const APPROVAL: &str = "write `approval = always`, `approval = never`, or a rule such as \
                       `approval = |args: &PayArgs| args.euros > 100`";

/// Checks the name of a tool by the rules of model providers.
pub(crate) fn check_name(name: &str, span: Span) -> Result<()> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    match (1..=64).contains(&name.len()) && name.bytes().all(is_valid) {
        true => Ok(()),
        false => Err(Error::new(
            span,
            "the name of a tool consists of 1 to 64 letters, digits, `_` and `-`; set another one \
             with `name = \"…\"`",
        )),
    }
}

fn flag(meta: &Meta, change: TokenStream) -> Result<TokenStream> {
    match meta {
        Meta::Path(_) => Ok(change),
        _ => Err(Error::new_spanned(meta, "this option has no value: write its name alone")),
    }
}

fn value<'a>(meta: &'a Meta, hint: &str) -> Result<&'a Expr> {
    match meta {
        Meta::NameValue(pair) => Ok(&pair.value),
        _ => Err(Error::new_spanned(meta, hint)),
    }
}

/// Returns the text of an option, which is not empty.
fn text(meta: &Meta, what: &str) -> Result<String> {
    let hint = format!("write {what} in quotation marks: `… = \"…\"`");
    match value(meta, &hint)? {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if !text.value().trim().is_empty() => {
            Ok(text.value())
        }
        other => Err(Error::new_spanned(other, hint)),
    }
}

/// Returns the expression of a duration such as `"500ms"`.
fn duration(meta: &Meta) -> Result<TokenStream> {
    const HINT: &str = "write a time such as \"500ms\", \"20s\", \"5m\" or \"1h\"";
    let error = || Error::new_spanned(meta, HINT);
    let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = value(meta, HINT)? else {
        return Err(error());
    };
    let text = text.value();
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = text[..text.len() - unit.len()].parse().map_err(|_| error())?;
    let factor = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(error()),
    };
    match number.checked_mul(factor) {
        Some(millis) if millis > 0 => Ok(quote!(::core::time::Duration::from_millis(#millis))),
        _ => Err(error()),
    }
}
