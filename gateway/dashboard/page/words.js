// Every text of the page, in English and Chinese. `{name}` stands for what is filled in.

import { cache } from './words/cache.js';
import { change } from './words/change.js';
import { explain } from './words/explain.js';
import { frame } from './words/frame.js';
import { live } from './words/live.js';
import { pages } from './words/pages.js';

export const words = { ...frame, ...live, ...explain, ...change, ...pages, ...cache };

/// The languages, in the order of the texts.
export const languages = { en: 'English', zh: '中文' };
