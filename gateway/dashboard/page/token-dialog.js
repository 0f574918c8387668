// Asks for the token that the gateway wants.

import { Dialog, html } from './parts.js';
import { decline, give } from './token.js';
import { t } from './text.js';

export function TokenDialog({ wrong }) {
  const go = (event) => {
    event.preventDefault();
    give(new FormData(event.currentTarget).get('token').trim());
  };
  return html`<${Dialog} id="token-title" title=${t('token.title')} onClose=${decline}>
    <p class="lead">${t('token.lead')}</p>
    <form onSubmit=${go}>
      <label>${t('token.label')}<input name="token" type="password" required data-focus autocomplete="off" spellcheck=${false}
        aria-invalid=${wrong ? 'true' : undefined} aria-describedby=${wrong ? 'token-problem' : undefined} /></label>
      ${wrong && html`<p class="field-problem" id="token-problem" role="alert">${t('token.wrong')}</p>`}
      <div class="buttons"><button class="primary">${t('token.go')}</button></div>
    </form><//>`;
}
