//! `hmac`: admits requests that are signed with a consumer's secret (RFC 9421, HTTP Message Signatures,
//! `hmac-sha256`).
//!
//! The signature lists the components of the request that it covers. All required components must be covered,
//! because others could be changed on the way. A body is covered by its digest (RFC 9530); the policy
//! compares the digest with the body if configured.

mod base;
mod config;
mod digest;
mod nonces;
mod structured;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_observe::Reason;

use self::base::base;
use self::nonces::{NonceResult, Nonces};
use self::structured::{BareItem, DictionaryMember, Parameters, dictionary, write_list};
use crate::api_key::optional_suffix;
use crate::{
    Authenticator, Consumer, Consumers, Identity, Planned, Policy, PolicyStates, Refusal, Request, Reserved,
    Verdict,
};

pub(crate) use config::HmacSettings;

/// RFC 9110, 11.6.1 requires a challenge with every 401, but no scheme is registered for signatures.
const CHALLENGE: &[u8] = b"WWW-Authenticate: Signature\r\n";
/// The maximum number of signatures that are verified per request. Each costs a hash over the covered
/// components.
const SIGNATURES_MAX: usize = 4;
/// The maximum length of a nonce in bytes.
const NONCE_MAX_BYTES: usize = 256;

/// Admits requests that are signed with a consumer's secret.
#[derive(Debug)]
pub struct HmacRules {
    /// Components that a signature must cover.
    pub components: Vec<String>,
    /// The label of the signature; `None`: any.
    pub label: Option<String>,
    /// The required `tag` of the signature; `None`: any.
    pub tag: Option<String>,
    /// The maximum age of a signature.
    pub max_age: Duration,
    /// The tolerated clock difference.
    pub leeway: Duration,
    /// The number of remembered nonces; `None`: no nonce is required.
    pub nonces: Option<usize>,
    /// The maximum size in bytes of a body to compare with its digest; `None`: bodies are not compared.
    pub body: Option<usize>,
    /// Whether the signature is sent upstream.
    pub forward: bool,
    /// Whether a request without a signature passes.
    pub optional: bool,
    /// The fields that name the consumer to the upstream.
    pub identity: Identity,
    /// The consumers with their HMAC secrets.
    pub consumers: Arc<Consumers>,
}

impl Planned for HmacRules {
    fn kind(&self) -> &'static str {
        "hmac"
    }

    fn summary(&self) -> String {
        let optional = optional_suffix(self.optional);
        format!("covering {}; {} keys{optional}", self.components.join(" "), self.consumers.secret_count())
    }

    fn activate(self: Arc<Self>, key: &str, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let window = self.max_age + 2 * self.leeway;
        let nonces = self.nonces.map(|most| {
            let make = || Nonces::new(window, most, tollgate_net::now());
            shared.state(key, |nonces: &Nonces| nonces.is_for(window, most), make)
        });
        let signature = Reserved::new(["Signature", "Signature-Input"]);
        Arc::new(HmacState { rules: self, nonces, signature })
    }
}

#[derive(Debug)]
struct HmacState {
    rules: Arc<HmacRules>,
    nonces: Option<Arc<Nonces>>,
    /// The fields that carry a signature.
    signature: Reserved,
}

/// The reason and detail of a refusal.
type RefusalCause = (Reason, &'static str);

const fn refused(detail: &'static str) -> RefusalCause {
    (Reason::CredentialsRefused, detail)
}

/// A signature of a request.
struct Signature {
    /// The covered components, by name.
    covered: Vec<String>,
    parameters: Parameters,
    /// The covered components and parameters, in the form in which they were signed.
    input: String,
    value: Vec<u8>,
}

/// The result of a valid signature.
struct ValidSignature {
    consumer: Arc<Consumer>,
    /// Whether it covers the digest of the body.
    digest: bool,
}

impl Policy for HmacState {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        self.rules.identity.remove(request);
        if self.rules.optional && !self.is_present(request) {
            self.rules.identity.rewrite(request);
            return Verdict::Continue;
        }
        match self.verified(request) {
            Ok(valid) => self.admit(request, valid),
            Err(fault) => refusal(fault),
        }
    }

    fn authenticator(&self) -> Option<&dyn Authenticator> {
        Some(self)
    }
}

impl Authenticator for HmacState {
    fn is_present(&self, request: &Request<'_>) -> bool {
        request.header("signature-input").is_some() || request.header("signature").is_some()
    }

    fn is_optional(&self) -> bool {
        self.rules.optional
    }

    fn challenge(&self) -> Vec<u8> {
        CHALLENGE.to_vec()
    }

    fn reserve_fields(&self, request: &mut Request<'_>) {
        self.rules.identity.rewrite(request);
    }

    fn forwards(&self, field: &str) -> bool {
        self.rules.forward && self.signature.has(field.as_bytes())
    }

    fn conceal(&self, request: &mut Request<'_>, _: &dyn Fn(&str) -> bool) {
        if !self.rules.forward {
            request.remove_reserved(&self.signature);
        }
    }
}

fn refusal((reason, detail): RefusalCause) -> Verdict {
    let lines = if reason.status() == 401 { CHALLENGE.to_vec() } else { Vec::new() };
    Refusal { detail: Some(detail), lines, ..reason.into() }.into()
}

impl HmacState {
    /// Verifies the request's signatures up to the first valid one.
    fn verified(&self, request: &Request<'_>) -> Result<ValidSignature, RefusalCause> {
        let missing = (Reason::CredentialsMissing, "the request is not signed");
        let inputs = all(request, "signature-input").ok_or(missing)?;
        let values = all(request, "signature").ok_or(missing)?;
        let inputs = dictionary(&inputs).ok_or(refused("`Signature-Input` cannot be read"))?;
        let values = dictionary(&values).ok_or(refused("`Signature` cannot be read"))?;
        let mut last = missing;
        let wanted = |label: &str| self.rules.label.as_deref().is_none_or(|own| own == label);
        let labelled = inputs.into_iter().filter(|(label, _)| wanted(label));
        for (label, input) in labelled.take(SIGNATURES_MAX) {
            let value = values.iter().find(|(own, _)| *own == label).map(|(_, value)| value);
            let signature = signature(input, value);
            match signature
                .and_then(|signature| self.rules.verify(request, signature, self.nonces.as_deref()))
            {
                Ok(valid) => return Ok(valid),
                Err(fault) => last = fault,
            }
        }
        Err(last)
    }

    /// Continues after a valid signature: compares the body with its digest if configured.
    fn admit(&self, request: &mut Request<'_>, valid: ValidSignature) -> Verdict {
        let Some(most) = self.rules.body else { return self.finish(request, &valid.consumer) };
        let empty = request.head.length.is_empty();
        if !valid.digest {
            return match empty {
                true => self.finish(request, &valid.consumer),
                false => refusal(refused("the signature does not cover `content-digest`")),
            };
        }
        let Some(digests) = all(request, "content-digest") else {
            return refusal(refused("`Content-Digest` is not there"));
        };
        let (rules, signature) = (self.rules.clone(), self.signature.clone());
        let after = move |body: &[u8], request: &mut Request<'_>| match digest::matches(&digests, body) {
            Ok(()) => {
                rules.finish(&signature, request, &valid.consumer);
                Verdict::Continue
            }
            Err(detail) => refusal(refused(detail)),
        };
        if empty { after(b"", request) } else { Verdict::Body(most, Box::new(after)) }
    }

    fn finish(&self, request: &mut Request<'_>, consumer: &Arc<Consumer>) -> Verdict {
        self.rules.finish(&self.signature, request, consumer);
        Verdict::Continue
    }
}

/// Joins all values of a field; `None` if it is absent.
fn all(request: &Request<'_>, name: &str) -> Option<Vec<u8>> {
    let values: Vec<&[u8]> = request.head.head.all_by_text(name.as_bytes()).collect();
    (!values.is_empty()).then(|| values.join(&b", "[..]))
}

fn signature(input: DictionaryMember, value: Option<&DictionaryMember>) -> Result<Signature, RefusalCause> {
    let DictionaryMember::List(items, parameters) = input else {
        return Err(refused("a member of `Signature-Input` is no list"));
    };
    let Some(DictionaryMember::Item(BareItem::Bytes(value))) = value else {
        return Err(refused("`Signature` has none for its label"));
    };
    if items.iter().any(|(_, parameters)| !parameters.is_empty()) {
        return Err(refused("a covered component has parameters, none of which are known"));
    }
    let input = write_list(&items, &parameters);
    let covered = items.into_iter().map(|(name, _)| name).collect();
    Ok(Signature { covered, parameters, input, value: value.clone() })
}

impl Signature {
    fn parameter(&self, name: &str) -> Option<&BareItem> {
        self.parameters.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.parameter(name) {
            Some(BareItem::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn time(&self, name: &str) -> Option<Duration> {
        match self.parameter(name) {
            Some(BareItem::Integer(seconds)) => u64::try_from(*seconds).ok().map(Duration::from_secs),
            _ => None,
        }
    }
}

impl HmacRules {
    fn verify(
        &self,
        request: &Request<'_>,
        signature: Signature,
        nonces: Option<&Nonces>,
    ) -> Result<ValidSignature, RefusalCause> {
        let covers = |name: &str| signature.covered.iter().any(|own| own == name);
        if !self.components.iter().all(|name| covers(name)) {
            return Err(refused("the signature does not cover all that it must"));
        }
        if signature.parameter("alg").is_some() && signature.text("alg") != Some("hmac-sha256") {
            return Err(refused("the signature's algorithm is not `hmac-sha256`"));
        }
        if self.tag.is_some() && signature.text("tag") != self.tag.as_deref() {
            return Err(refused("the signature's tag is another one"));
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.in_time(&signature, since).map_err(refused)?;
        let key = signature.text("keyid").ok_or(refused("the signature names no key"))?;
        let (consumer, secret) =
            self.consumers.by_hmac_key(key).ok_or(refused("no consumer has this key"))?;
        let names: Vec<&str> = signature.covered.iter().map(String::as_str).collect();
        let base = base(request, &names, &signature.input).map_err(refused)?;
        // This comparison takes constant time.
        if aws_lc_rs::hmac::verify(secret, &base, &signature.value).is_err() {
            return Err(refused("the signature is not good"));
        }
        if let Some(nonces) = nonces {
            let nonce = signature.text("nonce").filter(|nonce| (1..=NONCE_MAX_BYTES).contains(&nonce.len()));
            let nonce = nonce.ok_or(refused("the signature has no nonce of 1 to 256 bytes"))?;
            match nonces.take(key, nonce, request.origin.now) {
                NonceResult::New => {}
                NonceResult::Seen => return Err(refused("this nonce was seen before")),
                NonceResult::Full => {
                    return Err((Reason::AuthorizationUnavailable, "no more nonces can be remembered"));
                }
            }
        }
        Ok(ValidSignature { consumer: consumer.clone(), digest: covers("content-digest") })
    }

    /// Whether the signature is recent and not expired (RFC 9421, 3.2.1 and 2.3).
    fn in_time(&self, signature: &Signature, now: Duration) -> Result<(), &'static str> {
        let created = signature.time("created").ok_or("the signature does not say when it was made")?;
        if created > now + self.leeway {
            return Err("the signature is of a time that is yet to come");
        }
        if created + self.max_age + self.leeway < now {
            return Err("the signature is too old");
        }
        if signature.parameter("expires").is_none() {
            return Ok(());
        }
        match signature.time("expires") {
            Some(expires) if expires + self.leeway > now => Ok(()),
            _ => Err("the signature has expired"),
        }
    }

    /// Admits the request as this consumer.
    fn finish(&self, signature: &Reserved, request: &mut Request<'_>, consumer: &Arc<Consumer>) {
        if !self.forward {
            request.remove_reserved(signature);
        }
        self.identity.set_consumer(request, consumer);
    }
}

#[cfg(test)]
mod tests;
