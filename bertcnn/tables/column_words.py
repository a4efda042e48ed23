"""Words that are typical of column names, in several languages."""

from __future__ import annotations

import re
import unicodedata


def _list(words: str) -> tuple[str, ...]:
    return tuple(words.split())


# The most typical words come first. A name that equals a word precedes a name that contains one.
LABEL_WORDS = _list("""
    label labels category intent class target topic queue team department type reason product
    issue tag group sentiment kategorie klasse thema abteilung bereich absicht warteschlange
    categorie etiquette classe theme service equipe motif etiqueta categoria clase tema equipo
    departamento motivo etichetta argomento reparto rotulo afdeling kategoria etykieta klasa
    dzial категория метка класс тема отдел kategori etikett avdelning
""")
LAST_LABEL_WORDS = _list(
    "priority severity urgency prioritat prioriteit priorite prioridad priorita prioridade"
)
NEVER_LABEL_WORDS = _list("""
    channel source via status state language lang country city region zip company customer
    client user name agent author email mail phone date time created updated received id key
    uuid url split fold gender sex age geschlecht sexo genero sesso geslacht plec пол kanal
    quelle sprache land firma kunde benutzer canal origine langue pays origen idioma pais canale
    lingua kanaal taal bron kraj jezyk
""")
# columns that a support team fills in after deciding on a ticket
AFTER_WORDS = _list("""
    resolution resolved solution answer answers answered reply replied response responded closed
    closure satisfaction csat nps rating status antwort losung zufriedenheit bewertung reponse
    respuesta resolucion solucion satisfaccion risposta risoluzione soluzione soddisfazione
    antwoord oplossing tevredenheid resposta resolucao solucao satisfacao odpowiedz rozwiazanie
    ответ решение losning svar
""")
TEXT_WORDS = _list("""
    text texts message narrative complaint description body content comment utterance sentence
    review transcript question query feedback details request ticket note remarks nachricht
    beschreibung inhalt anliegen anfrage kommentar beschwerde mitteilung texte corps contenu
    commentaire reclamation plainte demande texto mensaje descripcion cuerpo contenido
    comentario queja consulta testo messaggio descrizione corpo contenuto commento reclamo
    richiesta mensagem descricao conteudo reclamacao tekst bericht omschrijving inhoud opmerking
    klacht vraag wiadomosc opis tresc текст сообщение описание обращение жалоба innehall 文本 内容
    本文 텍스트
""")
TITLE_WORDS = _list(
    "subject title summary headline betreff titel sujet objet titre asunto titulo oggetto titolo"
    " onderwerp assunto temat"
)
NEVER_TEXT_WORDS = _list(
    "id uuid key date time length count score type language lang url link email number code"
)
ID_WORDS = _list("id uuid guid key number nr no ref reference case ticket nummer numero")
TIME_WORDS = _list(
    "date time timestamp created received opened datum zeit erstellt fecha hora data heure cree"
    " czas дата"
)


def words_of(name: str) -> tuple[str, ...]:
    """The words of a column name, in lower case, without accents.

    Example:
        >>> words_of("TicketID"), words_of("Sub-product"), words_of("Catégorie")
        (('ticket', 'id'), ('sub', 'product'), ('categorie',))
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    plain = "".join(
        char for char in unicodedata.normalize("NFKD", spaced) if not unicodedata.combining(char)
    )
    return tuple(
        unicodedata.normalize("NFKC", word) for word in re.findall(r"[^\W_]+", plain.casefold())
    )
