// Resources that carry no figures of their own: their names, and each as text.

import { Listing } from '../listing.js';
import { Empty, html, NextStep } from '../parts.js';
import { mayWrite, place } from '../resources.js';
import { t } from '../text.js';
import { NEW, Resource } from './resource.js';

function All({ kind }) {
  const anew = mayWrite() && html`<a class="button primary" href=${`#${kind}/${NEW}`}>${t(`new.${kind}`)}</a>`;
  const columns = [{ key: 'name', label: t('edit.name') }, { key: 'source', label: t('plain.source') }];
  const row = ({ name, source, version }) => html`<tr key=${name}>
    <th scope="row" class="name"><a href=${place(kind, name)}>${name}</a></th>
    <td class="wide-cell">${version === null ? t('source.file', { at: source }) : t('source.store', { n: version })}</td></tr>`;
  const empty = html`<${Empty} title=${t(`plain.none.${kind}`)}><p>${t(`plain.what.${kind}`)}</p><${NextStep} kind=${kind} /><//>`;
  return html`<${Listing} id=${kind} title=${t(`view.${kind}`)} path=${kind} still columns=${columns} fallback=${{ sort: 'name', order: 'asc' }}
    row=${row} empty=${empty} more=${anew}
    counted=${(found, total, narrowed) => (narrowed ? t('plain.count', { shown: found, all: total }) : total)}
    hint=${t('plain.filter')} filterLabel=${t('plain.filter')} />`;
}

/// The view of a kind.
export const plain = (kind) => ({ detail }) => (detail
  ? html`<${Resource} key=${detail} kind=${kind} name=${detail} />`
  : html`<${All} key=${kind} kind=${kind} />`);
