"""One call of each SDK of a service, to a server at an address, with the repetitions of the SDK itself switched off.

None of them is a dependency: each is imported when it is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

Send: TypeAlias = Callable[[str, float], Any]  # address without a slash at its end, seconds


def by_stripe(url: str, seconds: float) -> None:
    stripe = import_module("stripe")
    http = stripe.RequestsClient(timeout=seconds)
    client = stripe.StripeClient("sk", base_addresses={"api": url}, max_network_retries=0, http_client=http)
    client.v1.customers.retrieve("a")


def by_github(url: str, seconds: float) -> None:
    github = import_module("github")
    client = github.Github(base_url=url, retry=None, timeout=int(seconds), seconds_between_requests=None)
    client.get_repo("a/b")


def by_notion(url: str, seconds: float) -> None:
    client = import_module("notion_client").Client(auth="k", base_url=url, timeout_ms=int(seconds * 1000), retry=False)
    client.pages.retrieve("a")


async def by_notion_in_loop(url: str, seconds: float) -> None:
    client = import_module("notion_client").AsyncClient(auth="k", base_url=url, timeout_ms=int(seconds * 1000))
    await client.pages.retrieve("a")


def by_googleapiclient(url: str, seconds: float) -> None:
    httplib2, discovery = import_module("httplib2"), import_module("googleapiclient.discovery")
    service = discovery.build(
        "drive", "v3", http=httplib2.Http(timeout=seconds), client_options={"api_endpoint": url}, static_discovery=True
    )
    service.files().get(fileId="a").execute(num_retries=0)


def by_google_cloud_storage(url: str, seconds: float) -> None:
    storage, credentials = import_module("google.cloud.storage"), import_module("google.auth.credentials")
    client = storage.Client("p", credentials.AnonymousCredentials(), client_options={"api_endpoint": url})
    client.get_bucket("b", timeout=seconds, retry=None)


def by_kubernetes(url: str, seconds: float) -> None:
    client = import_module("kubernetes.client")
    configuration = client.Configuration(host=url)
    configuration.retries = False
    client.CoreV1Api(client.ApiClient(configuration)).read_namespaced_pod("a", "b", _request_timeout=seconds)


async def by_discord(url: str, _seconds: float) -> None:
    http = import_module("discord.http")
    http.Route.BASE = url
    client = http.HTTPClient(asyncio.get_running_loop(), max_ratelimit_timeout=30)
    try:
        await client.static_login("k")
    finally:
        await client.close()


def by_slack(url: str, seconds: float) -> None:
    client = import_module("slack_sdk").WebClient("k", base_url=url + "/", timeout=seconds, retry_handlers=[])
    client.chat_postMessage(channel="a", text="b")


async def by_slack_in_loop(url: str, seconds: float) -> None:
    client = import_module("slack_sdk.web.async_client").AsyncWebClient(
        "k", base_url=url + "/", timeout=seconds, retry_handlers=[]
    )
    await client.chat_postMessage(channel="a", text="b")


def by_twilio(url: str, seconds: float) -> None:
    http = import_module("twilio.http.http_client").TwilioHttpClient(timeout=seconds)
    send = http.request

    def redirect(method: str, uri: str, *args: Any, **options: Any) -> Any:
        return send(method, url + uri.partition(".com")[2], *args, **options)

    http.request = redirect
    client = import_module("twilio.rest").Client("AC", "k", http_client=http)
    client.messages.create(to="+1", from_="+2", body="x")


def by_openai(url: str, seconds: float) -> None:
    client = import_module("openai").OpenAI(base_url=url, api_key="k", max_retries=0, timeout=seconds)
    client.models.retrieve("a")


def by_anthropic(url: str, seconds: float) -> None:
    client = import_module("anthropic").Anthropic(base_url=url, api_key="k", max_retries=0, timeout=seconds)
    client.models.retrieve("a")


def by_boto3(url: str, seconds: float) -> None:
    config = import_module("botocore.config").Config(
        retries={"total_max_attempts": 1}, read_timeout=seconds, connect_timeout=seconds
    )
    client = import_module("boto3").client(
        "dynamodb",
        "eu-west-1",
        endpoint_url=url,
        config=config,
        aws_access_key_id="k",
        aws_secret_access_key="k",
    )
    client.get_item(TableName="abc", Key={"a": {"S": "b"}})


def by_azure(url: str, seconds: float) -> None:
    blob = import_module("azure.storage.blob")
    service = blob.BlobServiceClient(url + "/account", retry_total=0, read_timeout=seconds, connection_timeout=seconds)
    service.get_blob_client("a", "b").download_blob().readall()


def by_elasticsearch(url: str, seconds: float) -> None:
    client = import_module("elasticsearch").Elasticsearch(url, max_retries=0, request_timeout=seconds)
    client.get(index="a", id="b")


async def by_elasticsearch_in_loop(url: str, seconds: float) -> None:
    client = import_module("elasticsearch").AsyncElasticsearch(url, max_retries=0, request_timeout=seconds)
    try:
        await client.get(index="a", id="b")
    finally:
        await client.close()


def by_qdrant(url: str, seconds: float) -> None:
    client = import_module("qdrant_client").QdrantClient(url, timeout=int(seconds), check_compatibility=False)
    client.get_collection("a")


def by_pinecone(url: str, seconds: float) -> None:
    pinecone = import_module("pinecone")
    client = pinecone.Pinecone(api_key="k", host=url, timeout=seconds, retry_config=pinecone.RetryConfig(max_retries=0))
    client.describe_index("a")


def by_sendgrid(url: str, seconds: float) -> None:
    client = import_module("sendgrid").SendGridAPIClient("k", host=url).client
    client.timeout = seconds
    client.mail.send.post(request_body={})


def by_simple_salesforce(url: str, _seconds: float) -> None:
    client = import_module("simple_salesforce").Salesforce(instance_url=url, session_id="k")
    client.base_url, client.sf_instance = url + "/", url
    client.restful("limits")


def by_jira(url: str, seconds: float) -> None:
    jira = import_module("jira")
    jira.JIRA(url, token_auth="k", max_retries=0, timeout=seconds, get_server_info=False).issue("A-1")


def by_atlassian(url: str, seconds: float) -> None:
    import_module("atlassian").Jira(url, token="k", timeout=int(seconds), max_backoff_retries=0).issue("A-1")


def by_google_genai(url: str, seconds: float) -> None:
    genai = import_module("google.genai")
    options = genai.types.HttpOptions(base_url=url, timeout=int(seconds * 1000))
    client = genai.Client(api_key="k", http_options=options)
    client.models.generate_content(model="m", contents="x")


def by_mistral(url: str, seconds: float) -> None:
    mistral = import_module("mistralai.client")
    mistral.Mistral("k", server_url=url, timeout_ms=int(seconds * 1000)).models.list()


def by_cohere(url: str, seconds: float) -> None:
    import_module("cohere").ClientV2("k", base_url=url, timeout=seconds).chat(
        model="m",
        messages=[{"role": "user", "content": "x"}],
        request_options={"max_retries": 0},
    )


def by_tavily(url: str, seconds: float) -> None:
    import_module("tavily").TavilyClient("tvly-k", api_base_url=url).search("x", timeout=seconds)


async def by_tavily_in_loop(url: str, seconds: float) -> None:
    await import_module("tavily").AsyncTavilyClient("tvly-k", api_base_url=url).search("x", timeout=seconds)


def by_postgrest(url: str, seconds: float) -> None:
    with import_module("postgrest").SyncPostgrestClient(url, timeout=int(seconds)) as client:
        client.table("a").select("*").retry(False).execute()


def by_hubspot(url: str, seconds: float) -> None:
    client = import_module("hubspot").HubSpot(access_token="k", retry=False)
    api = client.crm.contacts.basic_api
    api.api_client.configuration.host = url
    api.get_by_id("1", _request_timeout=seconds)


def by_ollama(url: str, seconds: float) -> None:
    import_module("ollama").Client(url, timeout=seconds).show("m")


CLIENTS: dict[str, Send] = {
    name.removeprefix("by_"): made for name, made in globals().items() if name.startswith("by_")
}
