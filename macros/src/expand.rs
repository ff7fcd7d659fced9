//! The expansions of `#[tool]` and `#[tools]`.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, ExprLit, ImplItem, ItemFn, ItemImpl, Lit, Meta, MetaNameValue, Result,
    ReturnType, Signature, Type, Visibility,
};

use crate::options::{ToolOptions, check_name};
use crate::signature::ToolSignature;

/// Returns a function that builds the tool, with the original function inside it.
pub(crate) fn tool(options: ToolOptions, mut function: ItemFn) -> Result<TokenStream> {
    let parts = ToolSignature::of(&mut function.sig, "")?;
    if parts.receiver.is_some() {
        let text = "put `#[tools]` on the `impl` block of this method";
        return Err(Error::new_spanned(&function.sig, text));
    }
    let is_outer =
        |a: &Attribute| ["doc", "cfg", "deprecated"].iter().any(|n| a.path().is_ident(n));
    let outer: Vec<_> = function.attrs.iter().filter(|a| is_outer(a)).cloned().collect();
    let visibility = function.vis.clone();
    let name = function.sig.ident.clone();
    let arguments = arguments(&parts, &outer, &visibility, &name);
    let built = built(&options, &function.sig, &outer, &parts, None)?;
    function.attrs.retain(|a| !is_outer(a));
    function.vis = Visibility::Inherited;
    Ok(quote! {
        #arguments
        #(#outer)*
        #visibility fn #name() -> impl ::loopwright::Tool {
            #function
            #built
        }
    })
}

/// Returns the block, and an implementation of `Tools` for its type.
pub(crate) fn tools(options: TokenStream, mut block: ItemImpl) -> Result<TokenStream> {
    if !options.is_empty() {
        let text = "`#[tools]` has no options; write those of a tool at its method: `#[tool(…)]`";
        return Err(Error::new_spanned(options, text));
    }
    if let Some((path, _)) = &block.trait_ {
        let text = "put `#[tools]` on an `impl` block of the type itself, without a trait";
        return Err(Error::new_spanned(path, text));
    }
    let ty = (*block.self_ty).clone();
    let prefix = match &ty {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    };
    let Some(prefix) = prefix else {
        return Err(Error::new_spanned(ty, "put `#[tools]` on the `impl` block of a named type"));
    };
    let (mut structs, mut tools) = (Vec::new(), Vec::new());
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else { continue };
        let Some(at) = method.attrs.iter().position(is_tool) else { continue };
        let attribute = method.attrs.remove(at);
        let options = match &attribute.meta {
            Meta::Path(_) => ToolOptions::default(),
            _ => attribute.parse_args()?,
        };
        let parts = ToolSignature::of(&mut method.sig, &prefix)?;
        if parts.receiver.is_none() {
            let text = "write `&self` as the first parameter, or move the function out of the \
                        `impl` block";
            return Err(Error::new_spanned(&method.sig, text));
        }
        let built = built(&options, &method.sig, &method.attrs, &parts, Some(&ty))?;
        let conditions = method.attrs.iter().filter(|a| a.path().is_ident("cfg"));
        structs.push(arguments(&parts, &method.attrs, &method.vis, &method.sig.ident));
        tools.push(quote! {
            #(#conditions)*
            tools.push(::std::sync::Arc::new(#built) as ::std::sync::Arc<dyn ::loopwright::Tool>);
        });
    }
    if tools.is_empty() {
        let text = "no method of this block is a tool; write `#[tool]` on those that are";
        return Err(Error::new_spanned(ty, text));
    }
    let (generics, _, conditions) = block.generics.split_for_impl();
    Ok(quote! {
        #block
        #(#structs)*
        impl #generics ::loopwright::Tools for #ty #conditions {
            fn tools(
                self: &::std::sync::Arc<Self>,
            ) -> ::std::vec::Vec<::std::sync::Arc<dyn ::loopwright::Tool>> {
                let mut tools = ::std::vec::Vec::new();
                #(#tools)*
                tools
            }
        }
    })
}

/// Returns whether the attribute is `#[tool]`, or `#[loopwright::tool]`.
fn is_tool(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|segment| segment.ident == "tool")
}

/// Returns the struct of the arguments.
fn arguments(
    parts: &ToolSignature,
    attributes: &[Attribute],
    visibility: &Visibility,
    function: &Ident,
) -> TokenStream {
    let (args, fields) = (&parts.args, &parts.fields);
    let conditions = attributes.iter().filter(|a| a.path().is_ident("cfg"));
    let doc = format!("Contains the arguments of the tool `{function}`.");
    quote! {
        #(#conditions)*
        #[doc = #doc]
        #[allow(missing_docs)]
        #[derive(::loopwright::__private::Deserialize, ::loopwright::__private::JsonSchema)]
        #[serde(crate = "::loopwright::__private::serde")]
        #[schemars(crate = "::loopwright::__private::schemars")]
        #visibility struct #args {
            #(#fields,)*
        }
    }
}

/// Returns the expression that builds the tool. For a method, `self` is an `Arc` of its value.
fn built(
    options: &ToolOptions,
    signature: &Signature,
    attributes: &[Attribute],
    parts: &ToolSignature,
    state: Option<&Type>,
) -> Result<TokenStream> {
    let function = &signature.ident;
    let name = match &options.name {
        Some(name) => name.clone(),
        None => {
            let name = function.to_string().trim_start_matches("r#").to_owned();
            check_name(&name, function.span())?;
            name
        }
    };
    let description = options.description.clone().unwrap_or_else(|| doc_comment(attributes));
    if description.is_empty() {
        let text = "write a doc comment that says what the tool does: the model reads it; or set \
                    `description = \"…\"`";
        return Err(Error::new_spanned(function, text));
    }
    let (args, changes) = (&parts.args, &options.changes);
    let call = parts.receiver.iter().chain(&parts.call);
    let call = match state {
        Some(ty) => quote!(<#ty>::#function(#(#call),*)),
        None => quote!(#function(#(#call),*)),
    };
    let awaited = signature.asyncness.map(|_| quote!(.await));
    // The arguments are typed for the closure of a rule, which need not name their type.
    let rule = options.rule.as_ref().map(|rule| {
        let rule = quote!(::loopwright::__private::typed_rule::<#args>(#rule));
        quote!(.approval(::loopwright::tool::Approval::when(#rule)))
    });
    // An error about the return type of the function is shown at that type.
    let returns = match &signature.output {
        ReturnType::Type(_, ty) => ty.span(),
        ReturnType::Default => function.span(),
    };
    let value = quote_spanned! {returns=>
        #[allow(clippy::let_unit_value)] // the span is the user's
        let value = kind.value(returned)?;
    };
    let output = quote_spanned!(returns=> form.output(value));
    let body = quote! {
        async move {
            let _ = (&args, &cx);
            let returned = #call #awaited;
            #[allow(unused_imports)]
            use ::loopwright::__private::{AnyForm as _, AnyKind as _, ErrorKind as _};
            #[allow(unused_imports)]
            use ::loopwright::__private::{OutputForm as _, ToolErrorKind as _, UnitForm as _};
            let kind = (&&&::loopwright::__private::Of::new(&returned)).kind();
            #value
            let form = (&&&::loopwright::__private::Of::new(&value)).form();
            #output
        }
    };
    let clone = state.map(|ty| quote!(let state = ::std::sync::Arc::<#ty>::clone(self);));
    let clone_per_call = state.map(|_| quote!(let state = ::std::sync::Arc::clone(&state);));
    Ok(quote! {{
        #clone
        ::loopwright::tool::FnTool::from_spec(
            ::loopwright::tool::ToolSpec::new::<#args>(#name, #description) #(#changes)* #rule,
            move |args: #args, cx: ::loopwright::ToolContext| {
                #clone_per_call
                #body
            },
        )
    }})
}

/// Returns the doc comment, without the space at the start of each line.
fn doc_comment(attributes: &[Attribute]) -> String {
    let lines =
        attributes.iter().filter(|a| a.path().is_ident("doc")).filter_map(|a| match &a.meta {
            Meta::NameValue(MetaNameValue {
                value: Expr::Lit(ExprLit { lit: Lit::Str(text), .. }),
                ..
            }) => Some(text.value()),
            _ => None,
        });
    let lines: Vec<_> =
        lines.map(|l| l.strip_prefix(' ').unwrap_or(&l).trim_end().to_owned()).collect();
    lines.join("\n").trim().to_owned()
}
