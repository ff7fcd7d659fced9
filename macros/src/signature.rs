//! The signature of a tool: its arguments, and the call of its function.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{
    Attribute, Error, FnArg, Pat, PatIdent, PatType, Receiver, ReceiverKind, Result, ReturnType,
    Safety, Signature, Type,
};

/// The attributes of a parameter that belong to its field.
const FIELD_ATTRIBUTES: [&str; 3] = ["doc", "serde", "schemars"];

/// The parts of a tool's signature.
pub(crate) struct ToolSignature {
    /// The name of the struct of the arguments.
    pub(crate) args: Ident,
    /// The fields of that struct.
    pub(crate) fields: Vec<TokenStream>,
    /// The arguments of the call, as expressions of `args` and of the context `cx`.
    pub(crate) call: Vec<TokenStream>,
    /// The receiver of a method, as an expression of `state`.
    pub(crate) receiver: Option<TokenStream>,
}

impl ToolSignature {
    /// Reads a signature, and removes the attributes of parameters that belong to the fields.
    pub(crate) fn of(signature: &mut Signature, prefix: &str) -> Result<Self> {
        check(signature)?;
        let mut parts = ToolSignature {
            args: format_ident!("{prefix}{}Args", pascal_case(&signature.ident.to_string())),
            fields: Vec::new(),
            call: Vec::new(),
            receiver: None,
        };
        for input in &mut signature.inputs {
            match input {
                FnArg::Receiver(receiver) => parts.receiver = Some(receiver_of(receiver)?),
                FnArg::Typed(parameter) => parts.add(parameter)?,
            }
        }
        Ok(parts)
    }

    fn add(&mut self, parameter: &mut PatType) -> Result<()> {
        if let Some(context) = context_of(&parameter.ty) {
            self.call.push(context);
            return Ok(());
        }
        let Pat::Ident(PatIdent { ident, by_ref: None, subpat: None, .. }) = &*parameter.pat else {
            let text = "write a plain name: it is the name that the model sees";
            return Err(Error::new_spanned(&parameter.pat, text));
        };
        let (ident, span) = (ident.clone(), parameter.ty.span());
        let is_field = |a: &Attribute| FIELD_ATTRIBUTES.iter().any(|name| a.path().is_ident(name));
        let attributes: Vec<_> = parameter.attrs.iter().filter(|a| is_field(a)).cloned().collect();
        parameter.attrs.retain(|a| !is_field(a));
        let ty = if is_str(&parameter.ty) {
            self.call.push(quote!(&args.#ident));
            quote_spanned!(span=> ::std::string::String)
        } else {
            check_owned(&parameter.ty)?;
            self.call.push(quote!(args.#ident));
            let ty = &parameter.ty;
            quote!(#ty)
        };
        self.fields.push(quote!(#(#attributes)* pub #ident: #ty));
        Ok(())
    }
}

/// Refuses signatures that a tool cannot have.
fn check(signature: &Signature) -> Result<()> {
    if let Some(parameter) = signature.generics.params.first() {
        let text = "a tool has no generic parameters: its arguments have one schema";
        return Err(Error::new_spanned(parameter, text));
    }
    if let Safety::Unsafe(token) = &signature.safety {
        return Err(Error::new_spanned(token, "a tool is a safe function"));
    }
    if let Some(variadic) = &signature.variadic {
        return Err(Error::new_spanned(variadic, "a tool has named parameters"));
    }
    if let ReturnType::Type(_, ty) = &signature.output
        && matches!(**ty, Type::ImplTrait(_))
    {
        let text = "name the type that the tool returns; a future is written as `async fn`";
        return Err(Error::new_spanned(ty, text));
    }
    Ok(())
}

/// Returns the receiver of a method: a reference, or an `Arc`.
fn receiver_of(receiver: &Receiver) -> Result<TokenStream> {
    let is_shared = |ty: &Type| matches!(ty, Type::Reference(r) if r.mutability.is_none());
    match &receiver.kind {
        ReceiverKind::Reference(_, _, None) => Ok(quote!(&state)),
        ReceiverKind::Typed(_, ty) if is_shared(ty) => Ok(quote!(&state)),
        ReceiverKind::Typed(_, ty) if is_arc(ty) => Ok(quote!(state)),
        _ => Err(Error::new_spanned(
            receiver,
            "write `&self`, as calls run at the same time; keep what changes in a `Mutex` or an \
             atomic",
        )),
    }
}

fn is_arc(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path.segments.last().is_some_and(|segment| segment.ident == "Arc")
}

/// Returns the argument for the context, if the parameter is one.
fn context_of(ty: &Type) -> Option<TokenStream> {
    let (ty, passed) = match ty {
        Type::Reference(reference) if reference.mutability.is_none() => {
            (&*reference.elem, quote!(&cx))
        }
        ty => (ty, quote!(::core::clone::Clone::clone(&cx))),
    };
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    (last.ident == "ToolContext").then_some(passed)
}

fn is_str(ty: &Type) -> bool {
    matches!(ty, Type::Reference(reference) if reference.mutability.is_none()
        && matches!(&*reference.elem, Type::Path(path) if path.path.is_ident("str")))
}

/// Refuses types that the arguments of a call cannot have.
fn check_owned(ty: &Type) -> Result<()> {
    struct References(Option<Error>);
    impl<'a> Visit<'a> for References {
        fn visit_type(&mut self, ty: &'a Type) {
            let text = match ty {
                Type::Reference(_) => {
                    "write an owned type, such as `String` or `Vec<T>`, or `&str`"
                }
                Type::ImplTrait(_) => "name the type: the model gets the schema of one type",
                _ => return syn::visit::visit_type(self, ty),
            };
            self.0.get_or_insert_with(|| Error::new_spanned(ty, text));
        }
    }
    let mut references = References(None);
    references.visit_type(ty);
    references.0.map_or(Ok(()), Err)
}

/// Converts the name of a function to the name of a type: `read_file` to `ReadFile`.
fn pascal_case(name: &str) -> String {
    let words = name.trim_start_matches("r#").split('_');
    words
        .flat_map(|word| {
            let mut letters = word.chars();
            letters
                .next()
                .into_iter()
                .flat_map(char::to_uppercase)
                .chain(letters)
                .collect::<Vec<_>>()
        })
        .collect()
}
